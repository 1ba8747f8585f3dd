package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// remedy is what is known of a command that texts of Jibe tell people to run: the test that
// runs it, or what it calls, where the text is shown; or why none does.
type remedy struct {
	test string
	why  string
}

// Reasons that hold for several commands.
const (
	looks = "it only shows what is; that its flags and arguments are taken is checked here, and what it shows by the tests of its own"
	names = "the text names the command, and tells nobody to run it"
	asked = "it is a choice of who owns the installation, and the text says what it opens; that the flag is taken is checked here"
)

// remedies are the commands in texts of the sources, but those in the help of commands. A new one
// must be put here: a remedy that can't be followed is worse than none.
var remedies = map[string]remedy{
	"git add --renormalize":                    {why: "git-lfs is no part of the machines of tests; it is what its manual says"},
	"git checkout":                             {why: "it puts a file back as the branch has it, in any clone"},
	"git clone":                                {test: "TestProcessServesTheAPIAndGitAndStartsAgainWhereItWasKilled"},
	"git clone --mirror":                       {test: "TestHalfARepositoryIsPutBackByItsRemedy"},
	"git commit":                               {test: "TestOnlyWhatItsPusherHasSignedIsTakenWhereThatIsAskedFor"},
	"git commit --amend --no-edit":             {why: "it signs the commits of a branch again in a clone; what is taken of them is proven for git commit"},
	"git fetch":                                {test: "TestACloneThatIsBehindIsAdvisedToFetchFirstAndTakesNothingOfOthersBack"},
	"git fetch --unshallow":                    {why: "it completes a clone, in which the same text isn't shown"},
	"git fsck":                                 {why: looks},
	"git fsck --connectivity-only":             {why: looks},
	"git fsck --lost-found --no-reflogs":       {test: "TestABranchThatIsGoneIsSetAgainByItsRemedy"},
	"git init --bare":                          {why: names},
	"git lfs":                                  {why: "git-lfs is no part of the machines of tests; it is what its manual says"},
	"git log":                                  {why: looks},
	"git mv":                                   {test: "TestAMisnamedFileIsRenamedByItsRemedy"},
	"git pull":                                 {why: names},
	"git pull --rebase":                        {why: "it is git's own way to settle a conflict, in a clone; TestAPersonsPushLandsWhateverJibeCommittedMeanwhile shows the text"},
	"git push":                                 {test: "TestAPersonsPushLandsWhateverJibeCommittedMeanwhile"},
	"git push -o":                              {test: "TestABadPushIsRefusedWithTheReason"},
	"git rebase":                               {why: "it signs the commits of a branch again in a clone; what is taken of them is proven for git commit"},
	"git rebase --exec":                        {why: "it signs the commits of a branch again in a clone; what is taken of them is proven for git commit"},
	"git repack -a -d":                         {test: "TestBorrowedObjectsAreMadeOnesOwnByTheRemedy"},
	"git repack -adf":                          {why: "it makes chains of deltas no longer than git's own limit, which is below that of a push"},
	"git tag -s":                               {why: "it makes the tag that the text asks for; which signatures of tags hold is proven in desired/packages"},
	"git update-ref":                           {test: "TestADamagedBranchIsSetAgainByItsRemedy"},
	"git update-ref -d":                        {test: "TestARefThatMisleadsIsFound"},
	"jibe accept":                              {test: "TestABranchSetBackOnTheHostEndsNothingUntilItIsAccepted"},
	"jibe audit verify":                        {test: "TestTheAuditLogOfADataDirectoryIsCheckedAndTheFirstBadLineNamed"},
	"jibe backup":                              {test: "TestABackupAmidstOperationsIsRestoredWithNothingLostOrDoubledAtTheCluster"},
	"jibe backup --data":                       {test: "TestABackupAmidstOperationsIsRestoredWithNothingLostOrDoubledAtTheCluster"},
	"jibe vim forget":                          {test: "TestAVIMThatIsGoneForGoodIsForgotten"},
	"jibe doctor":                              {why: looks},
	"jibe driver kubernetes-cluster":           {why: names},
	"jibe heal --wait":                         {why: "a tip of jibe try, which changes nothing of anybody's"},
	"jibe orphans delete --vim":                {test: "TestOrphansAreShownAndDeleted"},
	"jibe package rehash":                      {test: "TestAChangedPackageIsValidAfterRehash"},
	"jibe package validate":                    {test: "TestValidateOfAnArchiveShowsWhatIsWrongInIt"},
	"jibe plan":                                {why: looks},
	"jibe plan --head":                         {why: looks},
	"jibe restore":                             {test: "TestARestoreGoesOverOneThatWasKilledAtItsFirstWrite"},
	"jibe restore --store":                     {test: "TestARestoreIntoRedisIsCarriedOnAndRefusedForAnotherInstallation"},
	"jibe retry":                               {test: "TestRetrySucceedsOnceTheCauseIsGone"},
	"jibe rollout approve":                     {test: "TestARolloutWaitsForApprovalAndIsPausedAndAbortedByCommitsOfWhoAsks"},
	"jibe rollout resume":                      {test: "TestTheWavesOfARolloutAreMergedOnARealGiteaAndOneThatIsClosedHaltsIt"},
	"jibe secret encrypt":                      {test: "TestASecretInClearIsTakenOnceItIsEncrypted"},
	"jibe secret encrypt --recipient":          {test: "TestAValueThatIsMisplacedIsTakenAsItsRemedySays"},
	"jibe secret rotate --adopt":               {test: "TestARotationHasOldValuesBeForWhereTheyStand"},
	"jibe secret rotate":                       {test: "TestARotationBesideARunningServerEncryptsAllInOneCommitAndMayBeRepeated"},
	"jibe serve":                               {why: names},
	"jibe serve --accept-head":                 {test: "TestARepositoryWithoutWhatWasInEffectIsRefusedUnlessItsHeadIsAccepted"},
	"jibe serve --allow-credentials-over-http": {why: asked},
	"jibe serve --allow-hooks":                 {test: "TestAScalingWhoseHookMayNotRunIsRefusedByAPIAndPlanAndGoesThroughWithHooksSkip"},
	"jibe serve --allow-kubeconfig-exec":       {test: "TestTheServersFlagsAllowWhatIsRefusedWithoutThem"},
	"jibe serve --allow-skip-certificate-verification": {why: asked},
	"jibe serve --data":                 {test: "TestABackupAmidstOperationsIsRestoredWithNothingLostOrDoubledAtTheCluster"},
	"jibe serve --egress-proxy":         {test: "TestAProxyIsUsedOnlyWhereAllowedAndNeverForAForbiddenTarget"},
	"jibe serve --hook-limit":           {why: asked},
	"jibe serve --hook-path":            {test: "TestAnInterpreterThatHooksMayNotReachIsNamed"},
	"jibe serve --in-cluster":           {test: "TestInClusterStandsForAWholeConnectionAndForKubernetesAlone"},
	"jibe serve --prometheus":           {test: "TestTheQueryOfAVIMIsAskedOfItsOwnPrometheusAsTheVIMIsCalled"},
	"jibe serve --remote":               {why: names},
	"jibe serve --remote --forge-token": {why: asked},
	"jibe serve --secret-dir":           {test: "TestTheServersFlagsAllowWhatIsRefusedWithoutThem"},
	"jibe serve --secret-env":           {test: "TestTheServersFlagsAllowWhatIsRefusedWithoutThem"},
	"jibe serve --share-desired":        {test: "TestWhoMayReadSomeProjectsDoesNotFetchThemAll"},
	"jibe serve --store":                {why: names},
	"jibe serve --unconfined-hooks":     {test: "TestWhereTheKernelCanNotConfineHooksTheyDoNotRun"},
	"jibe ssh":                          {why: names},
	"jibe top":                          {why: looks},
	"jibe try":                          {why: names},
	"jibe try --data":                   {why: names},
	"jibe ui":                           {test: "TestALoginLinkOpensOneSessionAndNoneForAnotherSite"},

	"jibe serve --in-cluster-namespaces": {test: "TestThePodsServiceAccountHasItsNamespaces"},
}

// ofJibe are words behind "jibe" in texts where it is the program that does something.
var ofJibe = []string{"made", "knows", "warns", "refuses", "at", "with", "creation", "has"}

// The text of an error, an alert or a page that names a command to run is held to what
// the command line takes, and to a test that follows it.
func TestEveryRemedyIsKnownAndCanBeTyped(t *testing.T) {
	t.Parallel()

	root := newRoot()
	seen := map[string]bool{}
	sourceTexts(t, func(at, text string) {
		found, prose := calls(root, text)
		for _, c := range found {
			seen[c] = true
			if strings.HasPrefix(c, "jibe ") {
				if why := unparsed(root, c); why != "" {
					t.Errorf("%s: %q: %s", at, text, why)
				}
			}
			if _, known := remedies[c]; !known && !strings.HasPrefix(c, "jibe get") {
				t.Errorf("%s: %q tells people to run %q: put it into the table of remedies, with the test that follows it", at, text, c)
			}
		}
		for _, p := range prose {
			if !slices.Contains(ofJibe, strings.TrimPrefix(p, "jibe ")) {
				t.Errorf("%s: %q: %s is no command", at, text, p)
			}
		}
	})
	for c := range remedies {
		if !seen[c] {
			t.Errorf("no text names %q: take it out of the table", c)
		}
	}
}

func TestEveryTestOfARemedyIsThere(t *testing.T) {
	t.Parallel()

	declared := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(filepath.Join("..", ".."), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, m := range function.FindAllSubmatch(text, -1) {
			declared[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for c, r := range remedies {
		if r.why == "" && !declared[r.test] {
			t.Errorf("%s: there is no test %s", c, r.test)
		}
		if (r.why == "") == (r.test == "") {
			t.Errorf("%s: want a test, or the reason why there is none", c)
		}
	}
}
