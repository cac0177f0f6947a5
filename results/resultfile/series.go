package resultfile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// The columns of the two kinds of CSV file, in order. A unit stands in the
// name; bytes and messages have none other.
var (
	pointColumns  = []string{"seconds", "messages", "bytes", "arrived"}
	sampleColumns = []string{
		"seconds", "host", "cpu_seconds", "process_seconds", "net_rx_bytes", "net_tx_bytes",
		"disk_read_bytes", "disk_write_bytes", "memory_free_bytes", "run_queue",
		"process_resident_bytes", "process_read_bytes", "process_write_bytes", "process_syscalls", "gc_seconds",
	}
)

// oldSampleColumns is how many columns samples of version 1 have.
const oldSampleColumns = 10

// WritePoints writes points as CSV. What is read back is the same to the last
// bit.
func WritePoints(w io.Writer, points []Point) error {
	c := newCSVWriter(w, pointColumns)
	for _, p := range points {
		c.row(decimal(p.Seconds), whole(p.Messages), whole(p.Bytes), whole(p.Arrived))
	}
	return c.end()
}

// WriteSamples writes samples as CSV.
func WriteSamples(w io.Writer, samples []Sample) error {
	c := newCSVWriter(w, sampleColumns)
	for _, s := range samples {
		c.row(decimal(s.Seconds), s.Host, decimal(s.CPUSeconds), decimal(s.ProcessSeconds), whole(s.NetRxBytes), whole(s.NetTxBytes),
			whole(s.DiskReadBytes), whole(s.DiskWriteBytes), whole(s.MemoryFree), whole(int64(s.RunQueue)),
			whole(s.ProcessResidentBytes), whole(s.ProcessReadBytes), whole(s.ProcessWriteBytes), whole(s.ProcessSyscalls), decimal(s.GCSeconds))
	}
	return c.end()
}

// ReadPoints reads what WritePoints wrote. An error names line and column.
func ReadPoints(r io.Reader) ([]Point, error) {
	c, err := newCSVReader(r, pointColumns)
	if err != nil {
		return nil, err
	}
	var points []Point
	var before Point
	for c.next() {
		p := Point{Seconds: c.decimal(0), Messages: c.whole(1), Bytes: c.whole(2), Arrived: c.whole(3)}
		if c.err == nil {
			c.fail(checkPoint(before, p))
		}
		points = append(points, p)
		before = p
	}
	if c.err != nil {
		return nil, c.err
	}
	return points, nil
}

// ReadSamples reads what WriteSamples wrote.
func ReadSamples(r io.Reader) ([]Sample, error) {
	c, err := newCSVReader(r, sampleColumns, oldSampleColumns)
	if err != nil {
		return nil, err
	}
	var samples []Sample
	for c.next() {
		s := Sample{
			Seconds: c.decimal(0), Host: c.fields[1], CPUSeconds: c.decimal(2), ProcessSeconds: c.decimal(3),
			NetRxBytes: c.whole(4), NetTxBytes: c.whole(5), DiskReadBytes: c.whole(6), DiskWriteBytes: c.whole(7),
			MemoryFree: c.whole(8), RunQueue: int(c.whole(9)),
		}
		if len(c.fields) > oldSampleColumns {
			s.ProcessResidentBytes, s.ProcessReadBytes, s.ProcessWriteBytes = c.whole(10), c.whole(11), c.whole(12)
			s.ProcessSyscalls, s.GCSeconds = c.whole(13), c.decimal(14)
		}
		if c.err == nil {
			c.fail(checkSample(s))
		}
		samples = append(samples, s)
	}
	if c.err != nil {
		return nil, c.err
	}
	return samples, nil
}

// decimal is the shortest text that reads back as the same number.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func whole(v int64) string { return strconv.FormatInt(v, 10) }

// csvWriter keeps the first error, so that rows can be written without asking
// each time.
type csvWriter struct {
	w   *csv.Writer
	err error
}

func newCSVWriter(w io.Writer, columns []string) *csvWriter {
	c := &csvWriter{w: csv.NewWriter(w)}
	c.row(columns...)
	return c
}

func (c *csvWriter) row(fields ...string) {
	if c.err == nil {
		c.err = c.w.Write(fields)
	}
}

func (c *csvWriter) end() error {
	c.w.Flush()
	if c.err == nil {
		c.err = c.w.Error()
	}
	return c.err
}

// csvReader reads rows under a fixed head and keeps the first error.
type csvReader struct {
	r       *csv.Reader
	columns []string
	fields  []string
	err     error
}

// newCSVReader reads the head. An earlier version of the file may have had
// fewer columns: one of the numbers in older.
func newCSVReader(r io.Reader, columns []string, older ...int) (*csvReader, error) {
	c := &csvReader{r: csv.NewReader(bufio.NewReader(r)), columns: columns}
	c.r.ReuseRecord = true
	head, err := c.r.Read() // all rows must have as many fields
	if err == nil && slices.Contains(older, len(head)) {
		columns = columns[:len(head)]
	}
	if err == nil && len(head) != len(columns) {
		err = fmt.Errorf("there are %d", len(head))
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return nil, fmt.Errorf("line 1: the columns %q are wanted: %w", columns, err)
	}
	for i, name := range columns {
		if head[i] != name {
			return nil, fmt.Errorf("line 1: column %d is %q: %q is wanted", i+1, head[i], name)
		}
	}
	return c, nil
}

// next goes to the next row; false at the end or after an error.
func (c *csvReader) next() bool {
	if c.err != nil {
		return false
	}
	fields, err := c.r.Read()
	if errors.Is(err, io.EOF) {
		return false
	}
	c.fields, c.err = fields, err // csv's own errors name the line
	return err == nil
}

func (c *csvReader) decimal(column int) float64 {
	v, err := strconv.ParseFloat(c.fields[column], 64)
	c.failColumn(column, err)
	return v
}

func (c *csvReader) whole(column int) int64 {
	v, err := strconv.ParseInt(c.fields[column], 10, 64)
	if err == nil && v < 0 {
		err = strconv.ErrRange
	}
	c.failColumn(column, err)
	return v
}

func (c *csvReader) failColumn(column int, err error) {
	if err != nil {
		c.fail(fmt.Errorf("%s is %q: a number from 0 is wanted", c.columns[column], c.fields[column]))
	}
}

func (c *csvReader) fail(err error) {
	if err != nil && c.err == nil {
		line, _ := c.r.FieldPos(0)
		c.err = fmt.Errorf("line %d: %w", line, err)
	}
}
