package scenario

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/results/resultfile"
)

// Bounds and defaults of a scenario file.
const (
	DefaultPayloadBytes = 200 // NetDB'11 §5
	MinPayloadBytes     = 10  // room for sequence number and checksum
	MaxPayloadBytes     = 1 << 20
	DefaultQueue        = "bench"
	// MaxQueueBytes bounds the name of the queue or topic: Kafka's request
	// carries it with every batch, ActiveMQ with every message.
	MaxQueueBytes   = 8
	DefaultMessages = 1_000_000
	DefaultRepeat   = 3
	DefaultCap      = 45 * time.Second
	// MaxMessages, MaxRepeat, MaxRate and maxStored bound what a run may be asked
	// for, so that what is reckoned from it (time, disk space) stays a number.
	MaxMessages = 1_000_000_000_000
	MaxRepeat   = 1000
	MaxRate     = 1_000_000_000 // messages a second
	maxStored   = 4 << 30       // of a message, for all its consumers
)

// The roles of a system in its figure.
const (
	RoleSystem = resultfile.RoleSystem // as in the paper
	RoleLimit  = resultfile.RoleLimit  // the physical limit
	RoleExtra  = resultfile.RoleExtra  // a labelled addition to the paper's figure
	RoleAlso   = resultfile.RoleAlso   // none of the paper's systems
)

// Scenario is one figure's worth of measuring: what is done, with which
// systems.
type Scenario struct {
	Name         string
	Title        string
	Purpose      string
	Work         resultfile.Work
	PayloadBytes int
	Queue        string
	Limit        string // what the hardware allows, with its arithmetic
	// Unshaped asks for a link that is held to no rate while the systems of this
	// scenario are measured. A real link is what it is.
	Unshaped bool
	// BacklogOf names the produce scenario whose messages a consume scenario
	// consumes, at the same broker and in the same repetition. Empty: each
	// system's broker is filled for it, which is not measured.
	BacklogOf string
	Chart     resultfile.Chart
	Axis      *resultfile.Axis
	Shows     []string // quantities in the figure, by the names of package plots
	// BaseMessages is the size of a run for which the messages of its systems
	// are stated: in a run of twice as many they have twice theirs.
	BaseMessages int64
	Systems      []System
}

// System is one line of the figure.
type System struct {
	ID     string
	Label  string
	Driver string
	Role   string
	// OnRequest systems are measured only when the user names them, or the
	// consume of their backlog is.
	OnRequest bool
	Options   driver.Options
	// Capped systems are held to Cap, or to the default cap if that is 0, even
	// in a run without a cap.
	Capped bool
	// Cap, if not 0, is the longest time of an attempt of this system, where
	// the run's own cap is longer.
	Cap time.Duration
	// WarmUp messages are sent to a queue of their own, and consumed, before
	// measuring, in no time that is bounded or measured. They are of WarmUpBytes of
	// payload (0: as those that are measured), and their client has WarmUpOptions
	// beside Options. What compiles as it runs is warmed up with many small
	// messages for which nothing is awaited, whatever is measured then.
	// WarmUpRate is the ExpectedRate of it; 0: that of the system.
	WarmUp        int64
	WarmUpBytes   int
	WarmUpOptions driver.Options
	WarmUpRate    int64
	// MayReorder says that the system does not promise order with these options:
	// messages out of it are counted and shown, and are no fault of an attempt.
	MayReorder bool
	// Backlog is the ID of the system of the scenario BacklogOf whose messages
	// are consumed.
	Backlog string
	// ExpectedRate, in messages a second on two cores, and StoredBytes, on
	// disk a message, tell beforehand what time and space a run takes. Nothing
	// measured depends on them.
	ExpectedRate int64
	StoredBytes  int64

	Series string  // line of a sweep
	X      float64 // place on its axis
	View   string  // resultfile.ViewPaper or ViewBest; empty: there is only one

	PayloadBytes int // 0: the scenario's
	// Messages is for an attempt, and FillMessages is stored before the
	// measuring begins; 0: as many as the run says, and as are consumed.
	// Selection.MessagesOf and FillOf bring them to the size of a run.
	Messages     int64
	FillMessages int64
	FillOptions  driver.Options // what the filling client has beside Options
	Consumers    int            // at once, each of all messages; at least 1
	Producers    int            // at once, which share the messages; at least 1
	// Beside is how many consumers receive, each of them, what was filled in, as
	// fast as it goes, while it is produced. That ends as soon as either side has
	// come to its end. It is for systems with a log, of which all can read.
	Beside int
	Cores  int      // that the broker may use, the first of its host's; 0: those of the testbed
	Rate   float64  // planned, messages a second; 0: as fast as it goes
	Before []string // BeforeRestart, BeforeDropCache: done before it is measured, in order
}

// What System.Before may say is done to the broker before a consume.
const (
	BeforeRestart   = "restart"    // stopped cleanly, and started again over the same data
	BeforeDropCache = "drop-cache" // what its files have in the page cache is dropped
)

// file is the layout of a scenario file: a scenario, or a list of others to
// include.
type file struct {
	Name         string      `toml:"name"`
	Title        string      `toml:"title"`
	Purpose      string      `toml:"purpose"`
	Work         string      `toml:"work"`
	PayloadBytes int         `toml:"payload_bytes"`
	Queue        string      `toml:"queue"`
	Limit        string      `toml:"limit"`
	Link         string      `toml:"link"`
	BacklogOf    string      `toml:"backlog_of"`
	Include      []string    `toml:"include"`
	Messages     int64       `toml:"messages"`
	Repeat       int         `toml:"repeat"`
	Cap          string      `toml:"cap"`
	WarmUp       *int64      `toml:"warm_up"` // with include: at most so many
	Chart        string      `toml:"chart"`
	Axis         *axisRow    `toml:"axis"`
	Shows        []string    `toml:"shows"`
	Seconds      float64     `toml:"seconds"` // of sending at a planned rate
	Systems      []systemRow `toml:"system"`
}

type systemRow struct {
	ID           string         `toml:"id"`
	Label        string         `toml:"label"`
	Driver       string         `toml:"driver"`
	Role         string         `toml:"role"`
	OnRequest    bool           `toml:"on_request"`
	Capped       bool           `toml:"capped"`
	Cap          string         `toml:"cap"`
	WarmUp       int64          `toml:"warm_up"`
	WarmUpBytes  int            `toml:"warm_up_bytes"`
	WarmUpRate   int64          `toml:"warm_up_rate"`
	WarmUpOpts   map[string]any `toml:"warm_up_options"`
	MayReorder   bool           `toml:"may_reorder"`
	Backlog      string         `toml:"backlog"`
	ExpectedRate int64          `toml:"expected_rate"`
	StoredBytes  int64          `toml:"stored_bytes"`
	Options      map[string]any `toml:"options"`
	Series       string         `toml:"series"`
	X            float64        `toml:"x"`
	View         string         `toml:"view"`
	PayloadBytes int            `toml:"payload_bytes"`
	Messages     int64          `toml:"messages"`
	Bytes        int64          `toml:"bytes"` // the same, in bytes of payload
	FillMessages int64          `toml:"fill_messages"`
	FillBytes    int64          `toml:"fill_bytes"`
	FillOptions  map[string]any `toml:"fill_options"`
	Consumers    int            `toml:"consumers"`
	Producers    int            `toml:"producers"`
	Beside       int            `toml:"beside"`
	Cores        int            `toml:"cores"`
	Rate         float64        `toml:"rate"`
	Before       []string       `toml:"before"`
	Sweep        *sweepRow      `toml:"sweep"`
}

type axisRow struct {
	Label string `toml:"label"`
	Log   bool   `toml:"log"`
}

// nameRule keeps names fit for file names and for the IDs of attempts.
var nameRule = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// parse reads one file and checks it. name is what messages call it.
func parse(name string, text []byte) (file, error) {
	var f file
	if err := decodeStrict(name, text, &f); err != nil {
		return f, err
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(name+": "+format, args...)) }
	if !nameRule.MatchString(f.Name) {
		bad("name = %q: small letters, digits and single hyphens are wanted", f.Name)
	}
	if f.Title == "" || f.Purpose == "" {
		bad("title and purpose are wanted: they stand in the list and in the figures")
	}
	if f.Messages < 0 || f.Messages > MaxMessages || f.Repeat < 0 || f.Repeat > MaxRepeat {
		bad("messages = %d, repeat = %d: neither may be negative, nor more than %d and %d", f.Messages, f.Repeat, int64(MaxMessages), MaxRepeat)
	}
	if _, err := parseCap(f.Cap); err != nil {
		bad("%v", err)
	}
	if f.WarmUp != nil && (len(f.Include) == 0 || *f.WarmUp < 0) {
		bad("warm_up = %d at the top lowers the warm-up of the scenarios in include; for a system it belongs in its [[system]] table", *f.WarmUp)
	}
	if len(f.Include) > 0 {
		if f.Work != "" || len(f.Systems) > 0 || f.BacklogOf != "" || f.Limit != "" || f.Link != "" || f.Queue != "" || f.PayloadBytes != 0 ||
			f.Chart != "" || f.Axis != nil || len(f.Shows) > 0 || f.Seconds != 0 {
			bad("include stands for whole scenarios: work, payload_bytes, queue, limit, backlog_of and [[system]] belong in those")
		}
		return f, errors.Join(errs...)
	}
	return f, errors.Join(append(errs, f.check(name)...)...)
}

// check looks for faults of a file that is a scenario of its own, and fills in
// what may be left out.
func (f *file) check(name string) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(name+": "+format, args...)) }
	if f.PayloadBytes == 0 {
		f.PayloadBytes = DefaultPayloadBytes
	}
	if f.PayloadBytes < MinPayloadBytes || f.PayloadBytes > MaxPayloadBytes {
		bad("payload_bytes = %d: from %d to %d is wanted", f.PayloadBytes, MinPayloadBytes, MaxPayloadBytes)
	}
	if f.Queue == "" {
		f.Queue = DefaultQueue
	}
	if len(f.Queue) > MaxQueueBytes || !nameRule.MatchString(f.Queue) {
		bad("queue = %q: at most %d small letters and digits are wanted, since every request carries the name", f.Queue, MaxQueueBytes)
	}
	if strings.HasPrefix(f.Queue, "warm") {
		bad("queue = %q: warm-ups go through queues whose names begin so", f.Queue)
	}
	if f.Limit == "" {
		bad("limit is wanted: what the hardware allows, with its arithmetic")
	}
	if f.Link != "" && f.Link != resultfile.LinkUnshaped {
		bad("link = %q: %q is possible, and without the key it is the testbed's own", f.Link, resultfile.LinkUnshaped)
	}
	switch work := resultfile.Work(f.Work); work {
	case resultfile.Consume:
	case resultfile.Produce, resultfile.Stream, resultfile.Crash, resultfile.Rebalance, resultfile.Pipeline:
		if f.BacklogOf != "" {
			bad("backlog_of = %q: only work = %q has a backlog", f.BacklogOf, resultfile.Consume)
		}
	default:
		bad("work = %q: %q, %q, %q, %q, %q or %q is wanted", f.Work, resultfile.Produce, resultfile.Consume, resultfile.Stream, resultfile.Crash, resultfile.Rebalance, resultfile.Pipeline)
	}
	errs = append(errs, f.checkChart(name)...)
	errs = append(errs, f.expandSweeps(name)...)
	if len(f.Systems) == 0 {
		bad("there is no [[system]]")
	}
	if len(f.Systems) > 0 && !slices.ContainsFunc(f.Systems, func(row systemRow) bool { return !row.OnRequest }) {
		bad("every system is on_request: nothing is measured unless one is named")
	}
	ids := map[string]bool{}
	for i := range f.Systems {
		row := &f.Systems[i]
		at := fmt.Sprintf("%s: system %q", name, row.ID)
		if ids[row.ID] {
			errs = append(errs, fmt.Errorf("%s: there are two of that id", at))
		}
		ids[row.ID] = true
		for _, err := range append(row.check(resultfile.Work(f.Work)), row.checkAmounts(f)...) {
			errs = append(errs, fmt.Errorf("%s: %w", at, err))
		}
	}
	return errs
}

func (row *systemRow) check(work resultfile.Work) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !nameRule.MatchString(row.ID) {
		bad("id: small letters, digits and single hyphens are wanted")
	}
	if row.Label == "" {
		bad("label is wanted: it stands in the legend")
	}
	if row.Driver == "" {
		bad("driver is wanted")
	}
	switch row.Role {
	case "":
		row.Role = RoleSystem
	case RoleSystem, RoleLimit, RoleExtra, RoleAlso:
	default:
		bad("role = %q: %s, %s, %s or %s is wanted", row.Role, RoleSystem, RoleLimit, RoleExtra, RoleAlso)
	}
	if _, err := parseCap(row.Cap); err != nil {
		bad("%v", err)
	} else if row.Cap == "none" {
		bad("cap = \"none\": a system's own cap can only shorten that of the run; leave it out")
	}
	if row.WarmUp < 0 || row.WarmUp > MaxMessages {
		bad("warm_up = %d: 0 or more is wanted, up to %d", row.WarmUp, int64(MaxMessages))
	}
	if row.WarmUp == 0 && (row.WarmUpBytes != 0 || row.WarmUpRate != 0 || len(row.WarmUpOpts) > 0) {
		bad("warm_up_bytes = %d, warm_up_rate = %d, warm_up_options = %v: they do nothing without warm_up", row.WarmUpBytes, row.WarmUpRate, row.WarmUpOpts)
	}
	if row.WarmUpBytes != 0 && (row.WarmUpBytes < MinPayloadBytes || row.WarmUpBytes > MaxPayloadBytes) {
		bad("warm_up_bytes = %d: from %d to %d is wanted", row.WarmUpBytes, MinPayloadBytes, MaxPayloadBytes)
	}
	if row.WarmUpRate < 0 || row.WarmUpRate > MaxRate {
		bad("warm_up_rate = %d: 0 or more is wanted, up to %d", row.WarmUpRate, MaxRate)
	}
	if row.ExpectedRate <= 0 || row.StoredBytes <= 0 || row.ExpectedRate > MaxRate || row.StoredBytes > maxStored {
		bad("expected_rate = %d, stored_bytes = %d: both are wanted, up to %d and %d, to tell beforehand what time and disk space a run takes", row.ExpectedRate, row.StoredBytes, MaxRate, int64(maxStored))
	}
	if work != resultfile.Consume && row.Backlog != "" {
		bad("backlog = %q: only work = %q has a backlog", row.Backlog, resultfile.Consume)
	}
	if work == resultfile.Consume && row.Backlog == "" && row.Sweep == nil {
		row.Backlog = row.ID
	}
	for _, table := range []map[string]any{row.Options, row.FillOptions, row.WarmUpOpts} {
		if _, err := options(table); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// scenario turns a file that was found good into what the runner works with.
func (f *file) scenario() Scenario {
	s := Scenario{
		Name: f.Name, Title: f.Title, Purpose: f.Purpose, Work: resultfile.Work(f.Work),
		PayloadBytes: f.PayloadBytes, Queue: f.Queue, Limit: f.Limit, Unshaped: f.Link != "", BacklogOf: f.BacklogOf,
		Chart: resultfile.Chart(f.Chart), Axis: f.axis(), Shows: f.Shows, BaseMessages: f.baseMessages(),
	}
	for _, row := range f.Systems {
		o, _ := options(row.Options) // all were checked
		fill, _ := options(row.FillOptions)
		warmUp, _ := options(row.WarmUpOpts)
		limit, _ := parseCap(row.Cap)
		s.Systems = append(s.Systems, System{
			ID: row.ID, Label: row.Label, Driver: row.Driver, Role: row.Role, OnRequest: row.OnRequest, Options: o,
			Capped: row.Capped, Cap: limit, Backlog: row.Backlog,
			WarmUp: row.WarmUp, WarmUpBytes: row.WarmUpBytes, WarmUpOptions: warmUp, WarmUpRate: row.WarmUpRate, MayReorder: row.MayReorder,
			ExpectedRate: row.ExpectedRate, StoredBytes: row.StoredBytes,
			Series: row.Series, X: row.X, View: row.View,
			PayloadBytes: row.PayloadBytes, Messages: row.Messages, FillMessages: row.FillMessages, FillOptions: fill,
			Consumers: max(row.Consumers, 1), Rate: row.Rate, Before: row.Before,
			Producers: max(row.Producers, 1), Beside: row.Beside, Cores: row.Cores,
		})
	}
	return s
}

// options turns the values of an options table into the strings that drivers
// read.
func options(table map[string]any) (driver.Options, error) {
	o := driver.Options{}
	var errs []error
	for name, value := range table {
		switch v := value.(type) {
		case string:
			o[name] = v
		case int64:
			o[name] = strconv.FormatInt(v, 10)
		case bool:
			o[name] = strconv.FormatBool(v)
		default:
			errs = append(errs, fmt.Errorf("option %s = %v: a string, a whole number or true or false is wanted", name, value))
		}
	}
	// The order of a map is not that of the file; an error text must not
	// change from call to call.
	sort.Slice(errs, func(i, j int) bool { return errs[i].Error() < errs[j].Error() })
	return o, errors.Join(errs...)
}

// ParseCap reads the longest time of an attempt: a duration, or "none", which
// is 0.
func ParseCap(s string) (time.Duration, error) {
	if s == "" {
		return 0, fmt.Errorf("cap = %q: a duration such as 45s, or none, is wanted", s)
	}
	return parseCap(s)
}

func parseCap(s string) (time.Duration, error) {
	if s == "" || s == "none" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("cap = %q: a duration such as 45s, or none, is wanted", s)
	}
	return d, nil
}

// LongestRun is how long an attempt of this system may send or receive while it
// is measured, in a run of that cap; 0 is without bound.
func (s System) LongestRun(runCap time.Duration) time.Duration {
	limit := runCap
	if limit == 0 && s.Capped {
		limit = DefaultCap
	}
	if s.Cap > 0 && (limit == 0 && s.Capped || limit > s.Cap) {
		limit = s.Cap
	}
	return limit
}

// System returns the system of that ID.
func (s Scenario) System(id string) (System, bool) {
	for _, sys := range s.Systems {
		if sys.ID == id {
			return sys, true
		}
	}
	return System{}, false
}

// Result is the scenario as a result keeps it. The settings of the systems are
// for the runner to fill in: only the drivers know them.
func (s Scenario) Result() resultfile.Scenario {
	r := resultfile.Scenario{
		Name: s.Name, Title: s.Title, Purpose: s.Purpose, Work: s.Work,
		PayloadBytes: s.PayloadBytes, Limit: s.Limit, Chart: s.Chart, Axis: s.Axis, Shows: s.Shows,
	}
	for _, sys := range s.Systems {
		r.Systems = append(r.Systems, resultfile.System{
			ID: sys.ID, Label: sys.Label, Driver: sys.Driver, Options: sys.Options,
			Role: sys.Role, Capped: sys.Capped, Series: sys.Series, X: sys.X, View: sys.View,
			PayloadBytes: sys.PayloadBytes, Messages: sys.Messages, FillMessages: sys.FillMessages,
			Consumers: sys.Consumers, Rate: sys.Rate, Before: sys.Before,
			Producers: several(sys.Producers), Beside: sys.Beside, Cores: sys.Cores,
		})
	}
	return r
}

// several is a number of producers as a result has it: one goes without saying.
func several(n int) int {
	if n <= 1 {
		return 0
	}
	return n
}
