package sessionfiles

import "github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"

// ResumeWarning says what a resume tells the model of the calls without an output, where that may
// lead it to do them again, or the like; "" for nothing.
func ResumeWarning(s *Session, j *turns.Judged) string {
	if j.Plan == nil && j.State != turns.Undetermined {
		return ""
	}
	may := len(j.Unanswered()) > 0
	switch s.Agent.Profile.Resume {
	case turns.ResumeSendsPrompt:
		return "do not resume it: " + s.Agent.Title + " drops the turn and sends its prompt again, so what ran may run twice"
	case turns.ResumeSaysRetry:
		if may {
			return "a resume tells the model that the call failed and to try it again, although it may have run"
		}
	case turns.ResumeMisleads:
		if may {
			return "a resume tells the model that the call was aborted or returned nothing, although it may have run"
		}
	case turns.ResumeAsks, turns.ResumeUnknown:
	}
	return ""
}

// Resumed says what a resume has told the model of a turn that died, where the one after it ended
// well, and that may have led it to do something again; "" for nothing.
func Resumed(s *Session) string {
	if len(s.Turns) < 2 || s.Last().State != turns.Well {
		return ""
	}
	before := &s.Turns[len(s.Turns)-2]
	if before.State != turns.Died || len(before.Unanswered()) == 0 {
		return ""
	}
	switch s.Agent.Profile.Resume {
	case turns.ResumeSaysRetry:
		return "the model was told that the call failed and to try it again"
	case turns.ResumeMisleads:
		return "the model was told that the call was aborted or returned nothing"
	default:
		return ""
	}
}
