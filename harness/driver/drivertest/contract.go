package drivertest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/results/resultfile"
)

// contractLimit is what the testbed has patience for.
const contractLimit = 10 * time.Second

// classes are what a row's class may be; a prefix where it ends with a blank.
// Rows that are not named here are not compared, and have none.
var classes = map[string][]string{
	driver.RowDurability:  {"", driver.Persistent, driver.Transient},
	driver.RowFlush:       {"", driver.FlushOS, driver.FlushEach, "interval ", "count "},
	driver.RowProducerAck: {"", driver.AckNone, driver.AckReceived, driver.AckAppended, driver.AckFlushed},
	driver.RowConsumerAck: {"", driver.AckNone, driver.AckAutomatic, driver.AckEach, driver.AckBulk},
}

// Contract reads the contract of a running server and checks that it is whole:
// all rows but those that the testbed reads of every system itself, with
// classes that can be compared. It returns the rows by their names.
func Contract(t testing.TB, s driver.Server, m driver.Measurement) map[string]resultfile.ContractRow {
	t.Helper()
	reader, ok := s.(driver.ContractReader)
	if !ok {
		t.Fatalf("%T is no driver.ContractReader", s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), contractLimit)
	defer cancel()
	rows, err := reader.Contract(ctx, m)
	if err != nil {
		t.Fatalf("contract: %v", err)
	}
	byName := map[string]resultfile.ContractRow{}
	for _, r := range rows {
		if byName[r.Row].Row == "" { // of two the first counts
			byName[r.Row] = r
		}
		switch {
		case !slices.Contains(driver.ContractRows, r.Row):
			t.Errorf("there is no row %q", r.Row)
		case slices.Contains(driver.KernelRows, r.Row):
			t.Errorf("the row %q is the testbed's to read", r.Row)
		case r.Value == "":
			t.Errorf("the row %q has no value", r.Row)
		case !validClass(r):
			t.Errorf("the row %q has the class %q", r.Row, r.Class)
		}
	}
	for _, name := range driver.ContractRows {
		if byName[name].Row == "" && !slices.Contains(driver.KernelRows, name) {
			t.Errorf("the row %q is left out", name)
		}
	}
	return byName
}

func validClass(r resultfile.ContractRow) bool {
	if r.Row == driver.RowPrefetch {
		return r.Class == "" || r.Class == "none" || strings.Trim(r.Class, "0123456789") == ""
	}
	known, compared := classes[r.Row]
	if !compared {
		return r.Class == ""
	}
	return slices.ContainsFunc(known, func(c string) bool {
		return r.Class == c || strings.HasSuffix(c, " ") && strings.HasPrefix(r.Class, c)
	})
}
