package supervise

import "time"

// AnswerWithin sets how long the front may take to answer.
func AnswerWithin(d time.Duration) { answerTime = d }

// KillAfterJoin starts a supervisor that ends at once, waits for it, and kills
// it too late.
func KillAfterJoin() error {
	l := newLink(&Spec{})
	conn, err := l.startSupervisor()
	if err != nil {
		return err
	}
	_ = conn.Close()
	l.join()
	return l.kill()
}
