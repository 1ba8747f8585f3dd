package gitrepo

func writeUntilKilled(dir string) int { return 0 }
