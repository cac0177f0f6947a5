package paper

import (
	"bytes"
	"strings"
	"testing"

	"kafkalab/harness/scenario"
	numbers "kafkalab/results/paper"
	"kafkalab/scenarios"
)

// scenariosOf are the scenarios that the testbed has, as it gives them.
func scenariosOf(t testing.TB) map[string][]string {
	t.Helper()
	entries, err := scenario.NewLibrary(scenarios.Files).List()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string][]string{}
	for _, e := range entries {
		known[e.Name] = []string{}
		for _, y := range e.Systems {
			known[e.Name] = append(known[e.Name], y.ID)
		}
	}
	return known
}

func loadClaims(t testing.TB) *Claims {
	t.Helper()
	c, err := LoadClaims(scenariosOf(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The claims name what there is, and agree with the numbers that figures show
// and with what the paper's own numbers come to.
func TestClaims(t *testing.T) {
	c := loadClaims(t)
	value := func(id string, check int) float64 { return claimOf(t, c, id).Checks[check].Value }
	for _, v := range []struct {
		what      string
		got, want float64
	}{
		{"C1", value("C1", 0), numbers.ProducerRateBatch1},
		{"C2", value("C2", 0), numbers.ProducerRateBatch50},
		{"C9", value("C9", 0), numbers.ConsumerRate},
		{"C6", value("C6", 0), numbers.ProducerRateBatch50 / numbers.ProducerRateBatch1},
		{"C8, Kafka", value("C8", 0), numbers.KafkaOverheadBytes},
		{"C8, ActiveMQ", value("C8", 1), numbers.ActiveMQOverheadBytes},
	} {
		if v.got != v.want {
			t.Errorf("%s: %v, want %v", v.what, v.got, v.want)
		}
	}
	for _, a := range []struct{ id, says string }{
		{"C1", "84 Mbit/s"}, {"C2", "669 Mbit/s"}, {"C5", "669 Mbit/s"}, {"C6", "= 8."}, {"C8", "= 1.65"}, {"C9", "37 Mbit/s"}, {"C22", "11,574 a second"},
	} {
		if got := claimOf(t, c, a.id).Arithmetic; !strings.Contains(got, a.says) {
			t.Errorf("%s: %q does not say %q", a.id, got, a.says)
		}
	}
	for _, r := range []struct {
		what      string
		got, want float64
	}{
		{"batch 1 on the wire", numbers.ProducerRateBatch1 * (numbers.PayloadBytes + numbers.KafkaOverheadBytes) * 8 / 1e6, 83.6},
		{"batch 50 on the wire", numbers.ProducerRateBatch50 * (numbers.PayloadBytes + numbers.KafkaOverheadBytes) * 8 / 1e6, 668.8},
		{"the consumer on the wire", numbers.ConsumerRate * (numbers.PayloadBytes + numbers.KafkaOverheadBytes) * 8 / 1e6, 36.784},
	} {
		if diff := r.got - r.want; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%s: %v, want %v", r.what, r.got, r.want)
		}
	}
}

func claimOf(t testing.TB, c *Claims, id string) Claim {
	t.Helper()
	for _, claim := range c.Claims {
		if claim.ID == id {
			return claim
		}
	}
	t.Fatalf("no claim %s", id)
	return Claim{}
}

// What is written down must not be a verdict: no key of the file holds one.
func TestClaimsHoldNoVerdict(t *testing.T) {
	for _, v := range verdicts {
		if bytes.Contains(claimsTOML, []byte("= \""+string(v))) {
			t.Errorf("claims.toml says %q", v)
		}
	}
}

// endToEnd is the first check of C20.
const endToEnd = `  says = "mean delay from end to end"
  scenario = "pipeline"
  system = "pipeline"
  quantity = "mean delay to load"
  statistic = "median"
  relation = "about"
  value = 10
  tolerance = 0.25
  least_messages = 12_000
`

// A scenario that is to come is no fault, and decides nothing.
func TestClaimsThatWait(t *testing.T) {
	text := bytes.Replace(claimsTOML, []byte(endToEnd), []byte("  says = \"delay from end to end\"\n  scenario = \"to-come\"\n  not_built = true\n"), 1)
	c, err := parseClaims(text, scenariosOf(t))
	if err != nil {
		t.Fatal(err)
	}
	if k := claimOf(t, c, "C20").Checks[0]; !k.NotBuilt || k.measures() || k.Scenario != "to-come" {
		t.Errorf("%+v", k)
	}
}

func TestClaimsAreReadStrictly(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown key", "arithmetic = \"50,000", "arithmatic = \"50,000", `unknown key "claim.arithmatic"`},
		{"unknown key of a check", "tolerance = 0.25", "tolerence = 0.25", `unknown key "claim.check.tolerence"`},
		{"syntax", "id = \"C3\"", "id = C3", "claims.toml:"},
		{"twice", "id = \"C3\"", "id = \"C2\"", `claim "C2" stands where C3 should`},
		{"missing", "[[claim]]\nid = \"C22\"", "[[claim]]\nid = \"C23\"", `claim "C23" stands where C22 should`},
		{"no statement", "statement = \"The producer is at least", "statement = \"\" # ", "C4: statement is missing"},
		{"scenario", "scenario = \"fig4-producer\"", "scenario = \"fig6\"", `C1: check 1 (batch 1): there is no scenario "fig6"; not_built = true marks one that is to come`},
		{"system", "system = \"kafka-b1\"", "system = \"kafka-b2\"", `scenario fig4-producer has no system "kafka-b2", only limit, kafka-b1`},
		{"against", "against = \"activemq-receipt\"", "against = \"activemq5\"", `has no system "activemq5"`},
		{"ratio of nothing", "statistic = \"median\"", "statistic = \"ratio\"", `wants the system that it is against`},
		{"against with a median", "  statistic = \"ratio\"", "  statistic = \"median\"", `against = "activemq-receipt" belongs to`},
		{"statistic", "statistic = \"median\"", "statistic = \"mean\"", `statistic = "mean": "median", "ratio" or "greatest" is wanted`},
		{"greatest of one", "statistic = \"median\"", "statistic = \"greatest\"", `statistic = "greatest" wants systems, two or more, and no system`},
		{"several with a median", "system = \"kafka-b1\"", "systems = [\"kafka-b1\", \"kafka-b50\"]", `belongs to statistic = "greatest"`},
		{"none of a value", "relation = \"about\"", "relation = \"none\"", `value = 50000: relation = "none" wants none`},
		{"all beside", "says = \"batch 50, share of the link's TCP goodput\"", "says = \"batch 50\"\n  beside = true", "C5: nothing says how it is judged"},
		{"quantity", "quantity = \"message rate\"", "quantity = \"speed\"", `there is no quantity "speed"`},
		{"relation", "relation = \"about\"", "relation = \"around\"", `relation = "around"`},
		{"value", "value = 50_000", "value = -1", "value = -1"},
		{"no tolerance", "  tolerance = 0.25\n", "", "tolerance = 0"},
		{"nothing decides", endToEnd, "  says = \"delay from end to end\"\n  scenario = \"to-come\"\n", "one of a quantity, not_built and not_testable is wanted"},
		{"built and not", endToEnd, "  says = \"delay from end to end\"\n  scenario = \"to-come\"\n  not_built = true\n  system = \"kafka\"\n", "names no quantity, or a scenario that is not built"},
		{"no scenario", endToEnd, "  says = \"delay from end to end\"\n  not_built = true\n", "does not say which scenario"},
		{"least", "least_messages = 1_000_000", "least_messages = 0", "least_messages = 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := bytes.Replace(claimsTOML, []byte(c.old), []byte(c.new), 1)
			if c.name == "least" {
				text = bytes.Replace(claimsTOML, []byte("\n"+c.old), []byte("\n"+c.new), 1)
			}
			if bytes.Equal(text, claimsTOML) {
				t.Fatalf("%q is not in claims.toml", c.old)
			}
			if _, err := parseClaims(text, scenariosOf(t)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
