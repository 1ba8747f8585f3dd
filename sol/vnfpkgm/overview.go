package vnfpkgm

// Overview is what a list for people shows of a package.
type Overview struct {
	ID string
	// VnfdID and Tree are "" where there is no content.
	VnfdID, Tree                                  string
	OnboardingState, OperationalState, UsageState string
	// Failure is why it isn't onboarded, "" where it is, or may be.
	Failure string
}

// Overview returns all packages, by id.
func (s *Service) Overview() []Overview {
	used := s.Used()
	var list []Overview
	for _, o := range s.Catalogue.Onboarded() {
		v := Overview{ID: o.ID, OnboardingState: s.state(&o), OperationalState: disabled, UsageState: notInUse}
		if o.Entry != nil {
			v.VnfdID, v.Tree = o.Entry.VnfdID, o.Entry.Tree
			if used(v.VnfdID) {
				v.UsageState = inUse
			}
		}
		switch {
		case v.OnboardingState == failed:
			v.Failure = s.failure(&o).Detail
		case v.OnboardingState == onboarded && !o.Disabled:
			v.OperationalState = enabled
		}
		list = append(list, v)
	}
	return list
}
