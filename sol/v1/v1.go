// Package v1 translates between the VNF lifecycle management interface of SOL003 v2.6.1 (root
// /vnflcm/v1) and that of v3.3.1, which Jibe's handlers speak.
//
// It knows bodies and nothing else: it is pure, keeps nothing and asks nobody. What one
// version says and the other can't is refused or left out here, and nowhere else.
package v1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

const (
	connections = "vimConnectionInfo"
	deleted     = "vimConnectionInfoDeleteIds"
)

// Request turns the body of a request of v2.6.1 into one of v3.3.1. Its errors name the
// attribute that is wrong.
func Request(body map[string]any) error {
	if err := connectionMap(body); err != nil {
		return err
	}
	for attr, list := range map[string]string{"metadata": "metadataDeleteList", "extensions": "extensionsDeleteList"} {
		if err := takeAway(body, attr, list); err != nil {
			return err
		}
	}
	if err := cpConfigMaps(body); err != nil {
		return err
	}
	links, _ := body["extManagedVirtualLinks"].([]any)
	for _, l := range links {
		// Editions of v2 disagree on the name.
		if link, ok := l.(map[string]any); ok && link["vnfVirtualLinkDescId"] == nil && link["virtualLinkDescId"] != nil {
			link["vnfVirtualLinkDescId"] = link["virtualLinkDescId"]
			delete(link, "virtualLinkDescId")
		}
	}
	return nil
}

// connectionMap makes the list of VIM connections one by their ids, in which null takes one
// away.
func connectionMap(body map[string]any) error {
	byID := map[string]any{}
	if given, ok := body[connections]; ok && given != nil {
		list, ok := given.([]any)
		if !ok {
			return fmt.Errorf("attribute %q must be a list of connections, each with its id: that is its form in /vnflcm/v1", connections)
		}
		for i, c := range list {
			connection, _ := c.(map[string]any)
			id, _ := connection["id"].(string)
			if id == "" {
				return fmt.Errorf("%s[%d].id is missing: it is the name of the connection", connections, i)
			}
			if byID[id] != nil {
				return fmt.Errorf("%s names the connection %.64q twice", connections, id)
			}
			delete(connection, "id")
			byID[id] = connection
		}
	}
	ids, err := texts(body, deleted)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if byID[id] != nil {
			return fmt.Errorf("%s has the connection %.64q, which is in %s too", deleted, id, connections)
		}
		byID[id] = nil
	}
	delete(body, deleted)
	delete(body, connections)
	if len(byID) > 0 {
		body[connections] = byID
	}
	return nil
}

// takeAway puts null into the object attr for each key that the list names, as a merge
// patch does.
func takeAway(body map[string]any, attr, list string) error {
	keys, err := texts(body, list)
	if err != nil || keys == nil {
		return err
	}
	delete(body, list)
	patch, ok := body[attr].(map[string]any)
	if !ok {
		if body[attr] != nil {
			return fmt.Errorf("attribute %q must be an object", attr)
		}
		patch = map[string]any{}
		body[attr] = patch
	}
	for _, key := range keys {
		if _, there := patch[key]; there {
			return fmt.Errorf("%s names %.64q, which is in %s too", list, key, attr)
		}
		patch[key] = nil
	}
	return nil
}

// texts returns a list of texts, nil where it isn't there.
func texts(body map[string]any, attr string) ([]string, error) {
	given, ok := body[attr]
	if !ok {
		return nil, nil
	}
	list, ok := given.([]any)
	if !ok {
		return nil, fmt.Errorf("attribute %q must be a list", attr)
	}
	out := make([]string, 0, len(list))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s[%d] must be text", attr, i)
		}
		out = append(out, s)
	}
	return out, nil
}

// errInstances refuses what v3.3.1 says by the keys of cpConfig.
var errInstances = errors.New("cpInstanceId can't be taken where cpConfig has several entries, as it doesn't say which of them it means: use /vnflcm/v2, where each has a key")

// cpConfigMaps makes the lists of configurations of external connection points maps, by
// their places in the lists.
func cpConfigMaps(body map[string]any) error {
	links, _ := body["extVirtualLinks"].([]any)
	for i, l := range links {
		link, _ := l.(map[string]any)
		cps, _ := link["extCps"].([]any)
		for j, c := range cps {
			cp, _ := c.(map[string]any)
			list, ok := cp["cpConfig"].([]any)
			if !ok {
				continue // what it should be is for the handler to say
			}
			byKey := map[string]any{}
			for k, v := range list {
				if config, ok := v.(map[string]any); ok && config["cpInstanceId"] != nil {
					if len(list) > 1 {
						return fmt.Errorf("extVirtualLinks[%d].extCps[%d]: %w", i, j, errInstances)
					}
					delete(config, "cpInstanceId")
				}
				byKey[strconv.Itoa(k+1)] = v
			}
			cp["cpConfig"] = byKey
		}
	}
	return nil
}

// Answer turns a resource or a notification of v3.3.1 into one of v2.6.1.
func Answer(body map[string]any) {
	for _, attr := range []string{"verbosity", "affectedExtLinkPorts", "modificationsTriggeredByVnfPkgChange"} {
		delete(body, attr)
	}
	if links, ok := body["_links"].(map[string]any); ok {
		delete(links, "changeCurrentVnfPkg")
	}
	for _, part := range []any{body, body["operationParams"], body["changedInfo"]} {
		connectionList(part)
		cpConfigLists(part)
	}
	if changes, ok := body["resourceChanges"].(map[string]any); ok {
		delete(changes, "affectedExtLinkPorts")
	}
	withoutData(body["changedExtConnectivity"])
	info, ok := body["instantiatedVnfInfo"].(map[string]any)
	if !ok {
		return
	}
	withoutData(info["extVirtualLinkInfo"])
	if links, ok := info["vnfVirtualLinkResourceInfo"]; ok {
		info["virtualLinkResourceInfo"] = links // editions of v2 disagree on the name
	}
}

// connectionList makes the map of VIM connections a list.
func connectionList(part any) {
	m, _ := part.(map[string]any)
	byID, ok := m[connections].(map[string]any)
	if !ok {
		return
	}
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		connection, ok := byID[id].(map[string]any)
		if !ok {
			continue // taken away
		}
		connection["id"] = id
		list = append(list, connection)
	}
	m[connections] = list
}

// cpConfigLists makes the maps of configurations of external connection points lists.
func cpConfigLists(part any) {
	m, _ := part.(map[string]any)
	links, _ := m["extVirtualLinks"].([]any)
	for _, l := range links {
		link, _ := l.(map[string]any)
		cps, _ := link["extCps"].([]any)
		for _, c := range cps {
			cp, _ := c.(map[string]any)
			byKey, ok := cp["cpConfig"].(map[string]any)
			if !ok {
				continue
			}
			list := []any{}
			for _, key := range slices.Sorted(maps.Keys(byKey)) {
				if byKey[key] != nil {
					list = append(list, byKey[key])
				}
			}
			cp["cpConfig"] = list
		}
	}
}

// withoutData leaves out what v2.6.1 doesn't tell of external links.
func withoutData(links any) {
	list, _ := links.([]any)
	for _, l := range list {
		if link, ok := l.(map[string]any); ok {
			delete(link, "currentVnfExtCpData")
		}
	}
}

// Notification turns a notification of v3.3.1, whose links are right already, into one of
// v2.6.1.
func Notification(n any) (map[string]any, error) {
	b, err := json.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("notification: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var body map[string]any
	if err := dec.Decode(&body); err != nil {
		return nil, fmt.Errorf("notification: %w", err)
	}
	Answer(body)
	return body, nil
}
