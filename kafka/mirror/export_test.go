package mirror

// Steps of a set's way, at which a test lets its mirror die.
func Steps() []string {
	return []string{
		string(stepBeforeWrite), string(stepMidWrite), string(stepAfterWrite),
		string(stepFlushed), string(stepBeforeCommit), string(stepAfterCommit),
	}
}

// OnStep has f called at each step.
func OnStep(c *Config, f func(string)) { c.step = func(s step) { f(string(s)) } }
