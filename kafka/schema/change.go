package schema

import (
	"context"
	"crypto/rand"
	"errors"

	"kafkalab/kafka/client"
	"kafkalab/kafka/wire"
)

// change makes a change: plan says which, from a state that has all that the log
// holds. If another registry was faster, plan is asked again. A nil record says that
// there is nothing to change. change returns the record that counts, or nil.
//
// The error is an [*Error]. After one of [CodeTimeout] the change may be made still.
func (s *Store) change(ctx context.Context, plan func() (*record, error)) (*record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ChangeTimeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)() // a store that is closed keeps nobody
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, storeError(ctx, ctx.Err())
	}
	defer func() { <-s.turn }()
	a := &attempt{writer: rand.Text()}
	s.setAttempt(a)
	defer s.setAttempt(nil)
	for {
		if err := s.catchUp(ctx); err != nil {
			// Whether the broker is away for a moment or for good is not known, but the
			// one who asked can wait a little.
			if errors.Is(err, ErrBroken) || pause(ctx, retryInterval) != nil {
				return nil, storeError(ctx, err)
			}
			continue
		}
		if made := s.made(a); made != nil { // also by an append whose answer did not come
			s.cfg.Logger.Info("changed", "sequence", made.Sequence, "kind", made.Kind, "subject", made.Subject, "version", made.Version, "schema_id", made.ID)
			return made, nil
		}
		r, err := plan()
		if err != nil || r == nil {
			return nil, err
		}
		r.Format, r.Writer = recordFormat, a.writer
		if err := s.propose(ctx, r); err != nil {
			return nil, err
		}
	}
}

// propose appends a record and waits until it was read. That it could not be appended
// for now is no error: the end of the log tells whether it was.
func (s *Store) propose(ctx context.Context, r *record) error {
	payload, err := r.encode()
	if err != nil {
		return errorf(CodeStore, "%v", err)
	}
	next, err := s.link.append(ctx, payload)
	switch {
	case err == nil:
		if err := s.readUpTo(ctx, next); err != nil {
			return storeError(ctx, err)
		}
		return nil
	case errors.Is(err, wire.CodeMessageTooLarge), errors.Is(err, wire.CodeInvalidMessage), errors.Is(err, client.ErrArgument):
		return storeError(ctx, err) // and so it would be the next time
	}
	s.cfg.Logger.Warn("a change was not acknowledged, trying again", "subject", r.Subject, "error", err)
	if pause(ctx, retryInterval) != nil {
		return storeError(ctx, err)
	}
	return nil
}

func (s *Store) setAttempt(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt = a
}

func (s *Store) made(a *attempt) *record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return a.made
}

// Register gives a schema a version of a subject, and an id unless it has one, and
// returns them; if it is a version of the subject already, that one. The error is an
// [*Error]: [CodeIncompatible], [CodeNotPermitted] and others.
func (s *Store) Register(ctx context.Context, reg Registration) (SubjectVersion, error) {
	if err := CheckSubject(reg.Subject); err != nil {
		return SubjectVersion{}, err
	}
	var have SubjectVersion
	made, err := s.change(ctx, func() (r *record, err error) {
		s.mu.RLock()
		f := s.state.factsOf(reg)
		s.mu.RUnlock()
		// Without the lock: parsing and comparing may take long.
		have, r, err = f.plan(reg, s.cfg.MaxBytes)
		return r, err
	})
	if err != nil || made == nil {
		return have, err
	}
	return SubjectVersion{made.Subject, made.Version, made.ID, made.Schema}, nil
}

// Delete hides a version of a subject, or all of them (0), or if they are hidden
// already deletes them for good, and returns their numbers.
func (s *Store) Delete(ctx context.Context, subject string, version int, forGood bool) ([]int, error) {
	var numbers []int
	_, err := s.change(ctx, func() (*record, error) {
		s.mu.RLock()
		defer s.mu.RUnlock()
		r, planned, err := s.state.planDelete(subject, version, forGood)
		if err == nil {
			numbers = planned
		}
		return r, err
	})
	if err != nil {
		return nil, err
	}
	return numbers, nil
}

// SetLevel sets the level of a subject, or of all others (""). "" goes back to that of
// all others, or to [DefaultLevel].
func (s *Store) SetLevel(ctx context.Context, subject string, level Level) error {
	return s.set(ctx, record{Kind: kindConfig, Subject: subject, Level: level}, nil)
}

// SetMode sets the mode of a subject, or of all others (""). "" goes back to that of
// all others, or to [ReadWrite]. [Import] needs force when there are schemas already,
// whose ids might be those of the copy.
func (s *Store) SetMode(ctx context.Context, subject string, mode Mode, force bool) error {
	return s.set(ctx, record{Kind: kindMode, Subject: subject, Mode: mode}, func(st *state) error {
		if mode != Import || force {
			return nil
		}
		if subject != "" && len(st.subjects[subject].shown(false)) > 0 || subject == "" && len(st.names(false)) > 0 {
			return errorf(CodeNotPermitted, "Cannot import since found existing subjects")
		}
		return nil
	})
}

// set makes a change that depends on no more than check looks at.
func (s *Store) set(ctx context.Context, r record, check func(*state) error) error {
	if r.Subject != "" {
		if err := CheckSubject(r.Subject); err != nil {
			return err
		}
	}
	_, err := s.change(ctx, func() (*record, error) {
		s.mu.RLock()
		defer s.mu.RUnlock()
		if check != nil {
			if err := check(s.state); err != nil {
				return nil, err
			}
		}
		if r.Subject != "" && s.state.subjects[r.Subject] == nil && s.state.bytes+subjectCost(r.Subject) > s.cfg.MaxBytes {
			return nil, full(s.state.bytes, s.cfg.MaxBytes)
		}
		next := r
		next.Sequence = s.state.sequence + 1
		return &next, nil
	})
	return err
}
