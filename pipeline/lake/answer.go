package lake

// answerFile, in the state of a scenario, names its answer.
const answerFile = "answer.json"

// Answer is the variant that the last run of a scenario ended with; empty if none has, or if that is not known: readers
// take the best that there is.
func (l *Lake) Answer(id ScenarioID) string {
	variant, _ := l.ReadAnswer(id)
	return variant
}

// ReadAnswer is Answer with what is wrong with the file.
func (l *Lake) ReadAnswer(id ScenarioID) (variant string, err error) {
	if found, err := l.ReadState(Of(id).StatePath(answerFile), &variant); err != nil || !found {
		return "", err
	}
	return variant, nil
}

// SetAnswer makes a variant the answer of a scenario.
func (s *Session) SetAnswer(id ScenarioID, variant string) error {
	if s.Answer(id) == variant {
		return nil
	}
	return s.WriteStateDurably(Of(id).StatePath(answerFile), variant)
}
