package paper

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
	"kafkalab/scenarios"
)

// world says what a system of a scenario did, for a run of every system that a
// claim names.
type world func(a *resultfile.Attempt)

// asInThePaper is a world in which everything is as the paper says.
func asInThePaper(a *resultfile.Attempt) {
	rates := map[string]float64{
		"fig4-producer/kafka-b1": 50_000, "fig4-producer/kafka-b1-plain": 50_000, "fig4-producer/kafka-b50": 480_000,
		"fig5-consumer/kafka": 22_000, "batch-sweep/kafka-1": 50_000, "batch-sweep/kafka-plain-1": 50_000, "acks/kafka-none": 500_000, "acks/kafka-b1-none": 500_000,
		"restart-cache/kafka-cold": 100_000, "soak/kafka": 115_740,
	}
	rate := cmp.Or(rates[a.Scenario+"/"+a.System], 400_000)
	other := strings.HasPrefix(a.System, "rabbitmq") || strings.HasPrefix(a.System, "activemq")
	if strings.HasPrefix(a.Scenario, "fig") && other {
		rate = 400
	}
	f := float64(a.Messages)
	a.Seconds = f / rate
	a.ClientSeconds, a.BrokerCPUSeconds = a.Seconds, f*2e-6
	a.Measures = map[string]float64{
		"broker_syscalls": f * 0.02, "broker_disk_read_bytes": 0, "broker_resident_peak_bytes": 20e6, "broker_gc_seconds": f * 2e-6 * 0.01, "rate_wanted": rate, "rate_achieved": rate,
		"store_log_bytes": f * 209, "store_other_bytes": f * 0.014, "crash_lost_unpromised": 3000, "crash_lost_promised": 0,
		"settle_median_seconds": 0.1, "settle_max_seconds": 2, "tries_max": 3, "quiet_requests_per_second": 0, "quiet_commits_per_second": 3.2,
		"repeats_clean": 0, "repeats_unclean": 30, "repeats_bound": 100,
		"delay_load_mean_seconds": 9, "audit_missing": 0, "audit_unreported": 0, "audit_wrong": 0, "audit_missing_beyond_dropped": 0,
	}
	switch a.System {
	case "pipeline-tuned":
		a.Measures["delay_load_mean_seconds"] = 1
	case "pipeline-set-dropped":
		a.Measures["audit_missing"] = 180
	}
	a.StoreBytesAfter, a.BrokerResidentBytes = a.Messages*209, a.Messages
	if other {
		a.BrokerDiskWriteBytes, a.StoreBytesAfter = a.Messages, a.Messages*355
		a.Measures["store_index_bytes"], a.Measures["store_journal_bytes"] = f*11, f*344
	}
	if strings.Contains(a.System, "copy") {
		a.BrokerCPUSeconds *= 2
	}
	if strings.Contains(a.System, "cold") {
		a.Measures["broker_disk_read_bytes"] = f * 209
	}
}

// contrary turns it round.
func contrary(a *resultfile.Attempt) {
	asInThePaper(a)
	f := float64(a.Messages)
	slow := map[string]bool{"fig4-producer/kafka-b50": true, "batch-sweep/kafka-50": true, "batch-sweep/kafka-plain-50": true, "acks/kafka-none": true, "acks/kafka-b1-none": true, "restart-cache/kafka-after": true,
		"data-size-produce/kafka-20000000000": true, "data-size-consume/kafka-20000000000": true, "data-size-consume/kafka-cold-20000000000": true}
	if slow[a.Scenario+"/"+a.System] {
		a.Seconds = f / 20_000
	}
	if a.Scenario == "soak" {
		a.Seconds = f / 5000
		a.Measures["rate_achieved"] = 5000
	}
	if strings.Contains(a.System, "copy") {
		a.BrokerCPUSeconds /= 4
		a.Seconds /= 2
	}
	a.BrokerResidentBytes = a.PayloadBytes
	a.BrokerDiskWriteBytes = a.Messages
	if strings.HasPrefix(a.System, "activemq") || strings.HasPrefix(a.System, "rabbitmq") {
		a.BrokerDiskWriteBytes = 0
	}
	for name, v := range map[string]float64{
		"broker_disk_read_bytes": f * 209, "broker_resident_peak_bytes": f * 209, "broker_gc_seconds": a.BrokerCPUSeconds / 2, "tries_max": 9, "settle_max_seconds": 60,
		"quiet_requests_per_second": 5, "repeats_clean": 7, "repeats_unclean": 300,
		"store_other_bytes": f * 24, "delay_load_mean_seconds": 60, "audit_missing": 5, "audit_unreported": 3, "audit_wrong": 8, "audit_missing_beyond_dropped": 175,
	} {
		a.Measures[name] = v
	}
}

// everyClaim writes a run with every system that a check names, as the scenario
// files have it.
func everyClaim(t *testing.T, of world) *resultfile.Result {
	t.Helper()
	named := map[string][]string{}
	for _, c := range loadClaims(t).Claims {
		for _, k := range c.Checks {
			if k.measures() {
				named[k.Scenario] = append(named[k.Scenario], k.measured()...)
			}
		}
	}
	library := scenario.NewLibrary(scenarios.Files)
	var all []resultfile.Scenario
	asked := map[string]int64{}
	for name, systems := range named {
		sel, err := library.Select([]string{name}, systems)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sel.Scenarios {
			if s.Name != name {
				continue
			}
			out := resultfile.Scenario{Name: s.Name, Title: s.Title, Work: s.Work, PayloadBytes: s.PayloadBytes}
			for _, y := range s.Systems {
				asked[name+"/"+y.ID] = sel.MessagesOf(s, y)
				out.Systems = append(out.Systems, resultfile.System{ID: y.ID, Label: y.Label, Driver: y.Driver, Role: y.Role, Messages: asked[name+"/"+y.ID]})
			}
			all = append(all, out)
		}
	}
	slices.SortFunc(all, func(a, b resultfile.Scenario) int { return strings.Compare(a.Name, b.Name) })
	host := func(name string) resultfile.Host { return resultfile.Host{Name: name} }
	w, err := resultfile.Create(filepath.Join(t.TempDir(), "every-claim"), resultfile.Run{
		Started: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Ended: time.Date(2026, 11, 30, 13, 0, 0, 0, time.UTC), Commit: "0123456789ab", Command: "testbed run (synthetic)",
		Testbed:  resultfile.Testbed{Kind: "netns", Emulated: true, ClientHost: host("client"), BrokerHost: host("broker"), LinkGoodputMbps: 870, LinkReverseGoodputMbps: 870},
		Messages: 1_000_000, Repeat: 1, Scenarios: all,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, s := range all {
		for i, y := range s.Systems {
			n := asked[s.Name+"/"+y.ID]
			a := resultfile.Attempt{Scenario: s.Name, System: y.ID, Repetition: 1, Order: i + 1, Outcome: resultfile.Valid, Messages: n, PayloadBytes: n * 200, ClientMessages: n, Verified: true}
			of(&a)
			if y.Driver == "kafka" {
				a.StoredBytes = n * 209
			}
			a, err := w.Begin(a)
			if err != nil {
				t.Fatal(err)
			}
			wire := n * 210
			if y.Driver == "activemq" || y.Driver == "rabbitmq" {
				wire = n * 350
			}
			points := []resultfile.Point{{}, {Seconds: a.Seconds, Messages: n, Bytes: n * 200, Arrived: n}}
			samples := []resultfile.Sample{{Host: "client"}, {Host: "broker"}, {Seconds: a.Seconds, Host: "client", NetTxBytes: wire}, {Seconds: a.Seconds, Host: "broker", NetTxBytes: wire}}
			if err := w.PutAttempt(a, points, samples); err != nil {
				t.Fatal(err)
			}
		}
	}
	return read(t, w.Dir())
}

// With runs of every scenario each check has a number, the verdicts are those of a world as in the paper, and others in a world that
// is contrary to it.
func TestEveryClaimCanBeDecided(t *testing.T) {
	inPart := map[string]bool{"C13": true, "C8": true} // parts of which cannot be tested here
	for name, c := range map[string]struct {
		of   world
		want func(id string) Verdict
	}{
		"as in the paper": {asInThePaper, func(id string) Verdict {
			if inPart[id] {
				return InPart
			}
			return Holds
		}},
		"contrary": {contrary, func(id string) Verdict {
			switch id {
			case "C6", "C7", "C11", "C12", "C13", "C14", "C15", "C16", "C17", "C18", "C19", "C20", "C22":
				return Contradicted
			}
			return ""
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := judgeRuns(t, everyClaim(t, c.of))
			for id, j := range got {
				for _, k := range j.Checks {
					if k.measures() && k.First() == nil {
						t.Errorf("%s, %s: %s (%s) %+v", id, k.Says, k.Verdict, k.Why, k.Passed)
					} else if k.measures() && c.want(id) != "" && !k.Beside && k.NotTestable == "" && c.want(id) != k.Verdict && c.want(id) != InPart {
						t.Errorf("%s, %s: %s, %s: %+v", id, k.Says, k.Verdict, k.Why, k.First())
					}
				}
				if want := c.want(id); want != "" && j.Verdict != want {
					t.Errorf("%s: %s, want %s", id, j.Verdict, want)
				}
			}
		})
	}
}
