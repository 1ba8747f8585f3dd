package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// lose removes the records while nobody runs, and starts the server again.
func (p *proposing) lose() {
	p.Helper()
	p.stop()
	if err := os.Remove(filepath.Join(p.options.Data, "store.db")); err != nil {
		p.Fatal(err)
	}
	p.restart()
}

// steps are how many commits main has, and how many operations there are.
func (p *proposing) steps() string {
	p.Helper()
	all, err := process.All[process.Operation](p.Context(), p.Server, process.Operations)
	if err != nil {
		p.Fatal(err)
	}
	p.work.Git("fetch", "--quiet", "origin", "main")
	return fmt.Sprintf("%s commits, %d operations", strings.TrimSpace(p.work.Git("rev-list", "--count", "FETCH_HEAD")), len(all))
}

func TestWhatIsProposedOutlastsItsRecords(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	p := newProposing(t, "pull-request", nil)
	op := p.scaleOut()
	pr := p.opened(op)
	before := p.steps()
	p.lose()
	if again := p.opened(op); again.number != pr.number {
		t.Errorf("without its records it has pull request %d, before %d", again.number, pr.number)
	}
	p.units(1)
	p.ask(http.StatusConflict, "heal", map[string]any{})
	if after := p.steps(); after != before {
		t.Errorf("without its records there are %s, before %s", after, before)
	}
	p.merge(pr, "squash", nil)
	p.Await(t, op, "COMPLETED")
	p.units(2)
	p.tidied(op)

	// One that was merged as another commit keeps its id, also where it is lost after its end.
	before = p.steps()
	p.lose()
	p.Await(t, op, "COMPLETED")
	p.units(2)
	if after := p.steps(); after != before {
		t.Errorf("without its records there are %s, before %s", after, before)
	}

	// What was refused never counted.
	refused := p.scaleOut()
	p.api.became(p.opened(refused).number, "")
	p.told()
	p.rolledBack(refused, "was closed without being merged")
	p.tidied(refused)
	before = p.steps()
	p.lose()
	p.rolledBack(refused, "was closed without being merged")
	p.units(2)
	heal := p.scaleOut()
	p.opened(heal)
	if after, want := p.steps(), 1; !strings.HasPrefix(after, strings.Split(before, ",")[0]) {
		t.Errorf("without its records there are %s, before %s, and %d operation more was asked for", after, before, want)
	}
}

func TestWhatWasMergedWhileItsRecordsWereLostGoesOnUnderItsID(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	p := newProposing(t, "pull-request", nil)
	op := p.scaleOut()
	pr := p.opened(op)
	p.stop()
	p.api.merge(p.work, pr, "squash", nil)
	p.lose()
	p.Await(t, op, "COMPLETED")
	p.units(2)
	p.tidied(op)
	kit.Eventually(t, func() error {
		if last := lastOf(t, p.Server, proposedID); last.ID != op {
			return fmt.Errorf("the last operation is %+v, want %s", last, op)
		}
		return nil
	})
}

func TestWhatWasRefusedAndIsPushedNeverthelessIsAnOperationOfItsOwn(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	p := newProposing(t, "pull-request", nil)
	op := p.scaleOut()
	pr := p.opened(op)
	p.work.Pull()
	p.work.Git("fetch", "--quiet", "origin", pr.branch)
	p.work.Git("merge", "--quiet", "--ff-only", "FETCH_HEAD") // Jibe's very commit
	p.api.became(pr.number, "")
	p.told()
	p.rolledBack(op, "was closed without being merged")
	p.units(1)
	p.work.Git("push", "--quiet", "origin", "HEAD:main")
	p.told()
	p.units(2)
	if last := lastOf(t, p.Server, proposedID); last.ID == op || last.Type != "SCALE" {
		t.Errorf("the push began %+v", last)
	}
	p.rolledBack(op, "was closed without being merged")
}
