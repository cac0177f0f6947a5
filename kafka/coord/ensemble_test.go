package coord_test

import (
	"testing"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
)

// TestEnsembleMemberDies: the members of an ensemble die one after the other, the
// leader too. The session, its node and its watches outlive that, and the lease is
// taken up over another member.
func TestEnsembleMemberDies(t *testing.T) {
	t.Parallel()
	cl := zktest.Start(t, zktest.Ensemble)
	c := connect(t, coord.Config{Servers: cl.Connect() + "/k", SessionTimeout: 8 * time.Second, RequestTimeout: patience})
	ctx := testContext(t)
	s := session(t, c)
	defer s.KeepLease()()
	var data states
	must(t, c.WatchData("/n", data.data).Ready(ctx))
	e := c.Ephemeral("/e", func() []byte { return []byte("v") })
	must(t, e.Wait(ctx))
	for i, member := range []int{cl.Leader(), 0, 1, 2} {
		cl.Kill(member)
		killed := time.Now()
		value := string(rune('a' + i))
		must(t, c.Put(testContext(t), "/n", []byte(value)))
		data.want(t, value)
		eventually(t, "lease of after the death", func() bool { return s.Valid() && s.ValidUntil().Sub(killed) > s.Timeout() })
		if st, ok, err := c.Exists(testContext(t), "/e"); !ok || st.EphemeralOwner != s.ID() || err != nil {
			t.Errorf("node: %+v, %v, %v", st, ok, err)
		}
		cl.Restart(member)
	}
	if session(t, c) != s {
		t.Error("the session was lost")
	}
}
