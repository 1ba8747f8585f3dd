package sol

import (
	"context"
	"maps"
	"net/http"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// scaleVnfToLevelRequest is SOL003 clause 5.5.2.6.
type scaleVnfToLevelRequest struct {
	InstantiationLevelID string         `json:"instantiationLevelId,omitempty"`
	ScaleInfo            []askedLevel   `json:"scaleInfo,omitempty"`
	AdditionalParams     map[string]any `json:"additionalParams,omitempty"`
}

// askedLevel is a ScaleInfo of a request.
type askedLevel struct {
	AspectID string `json:"aspectId"`
	VnfdID   string `json:"vnfdId,omitempty"`
	Level    number `json:"scaleLevel,omitzero"`
}

// check refuses a request that doesn't say exactly one thing.
func (r *scaleVnfToLevelRequest) check() error {
	switch given := len(r.ScaleInfo) > 0; {
	case given && r.InstantiationLevelID != "":
		return rest.Problem(http.StatusBadRequest, "both \"instantiationLevelId\" and \"scaleInfo\" are given: leave one of them out")
	case !given && r.InstantiationLevelID == "":
		return rest.Problem(http.StatusBadRequest, "neither \"instantiationLevelId\" nor \"scaleInfo\" is given: name an instantiation level of the flavour, or the scale level of each aspect that is to change")
	}
	seen := map[string]bool{}
	for i, s := range r.ScaleInfo {
		switch {
		case s.AspectID == "":
			return rest.Problem(http.StatusBadRequest, "scaleInfo[%d].aspectId is missing", i)
		case seen[s.AspectID]:
			return rest.Problem(http.StatusBadRequest, "scaleInfo names aspect %s twice", quote(s.AspectID))
		case !s.Level.set:
			return rest.Problem(http.StatusBadRequest, "scaleInfo[%d].scaleLevel is missing", i)
		}
		seen[s.AspectID] = true
	}
	return nil
}

// scaleToLevel is POST vnf_instances/{id}/scale_to_level (SOL003 clause 5.4.6). An aspect that
// isn't named stays as it is.
func (a *api) scaleToLevel(w http.ResponseWriter, r *http.Request) error {
	var req scaleVnfToLevelRequest
	if err := rest.Read(w, r, &req); err != nil {
		return err
	}
	if err := req.check(); err != nil {
		return err
	}
	var from, to map[string]int
	return a.begin(w, r, request{typ: lcm.ScaleToLevel, params: params(req),
		next: func(ctx context.Context, now *desired.Instance, _ sight) (*desired.Instance, error) {
			flavour, err := a.runningFlavour(ctx, now)
			if err != nil {
				return nil, err
			}
			next, err := req.levels(now, flavour)
			if err != nil {
				return nil, err
			}
			if from, err = flavour.ScaleLevels(now.InstantiationLevel, now.Levels); err != nil {
				return nil, err
			}
			to, err = flavour.ScaleLevels(next.InstantiationLevel, next.Levels)
			return next, err
		},
		born: func(op *lcm.Operation, now, after *desired.Instance) error {
			if maps.Equal(from, to) && now.InstantiationLevel == after.InstantiationLevel {
				return rest.Problem(http.StatusConflict, "VNF instance %s is at these scale levels already", now.ID)
			}
			op.NoRollback = lcm.NoRollbackLevels(now, after, from, to)
			return nil
		}})
}

// levels returns the present intent with the levels that the request asks for.
func (r *scaleVnfToLevelRequest) levels(now *desired.Instance, flavour *vnfd.Flavour) (*desired.Instance, error) {
	if len(flavour.Aspects) == 0 && len(flavour.Levels) == 0 {
		return nil, rest.Problem(http.StatusNotFound, "VNF instance %s can't be scaled to a level: flavour %q of its VNFD has neither scaling aspects nor instantiation levels", now.ID, flavour.ID)
	}
	next := *now
	next.Held = ""
	if r.InstantiationLevelID != "" {
		next.InstantiationLevel, next.Levels = r.InstantiationLevelID, nil
		return &next, nil
	}
	next.Levels = maps.Clone(now.Levels)
	if next.Levels == nil {
		next.Levels = map[string]int{}
	}
	for i, s := range r.ScaleInfo {
		if s.VnfdID != "" && s.VnfdID != now.VnfdID {
			return nil, rest.Problem(http.StatusBadRequest, "scaleInfo[%d].vnfdId is %s, but VNF instance %s has VNFD %s", i, quote(s.VnfdID), now.ID, now.VnfdID)
		}
		next.Levels[s.AspectID] = s.Level.n
	}
	return &next, nil
}
