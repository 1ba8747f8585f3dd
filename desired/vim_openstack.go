package desired

import "go.yaml.in/yaml/v3"

// forOpenStack names the keys of the file that only OpenStack has.
func (v *VIM) forOpenStack() (keys []string) {
	for _, f := range [][2]string{
		{"region", v.Region}, {"project", v.Project}, {"projectDomain", v.ProjectDomain}, {"userDomain", v.UserDomain},
		{"clouds", v.Clouds}, {"cloud", v.Cloud},
		{"credentials.applicationCredentialId", v.Credentials.ApplicationCredentialID},
		{"credentials.applicationCredentialSecret", v.Credentials.ApplicationCredentialSecret},
	} {
		if f[1] != "" {
			keys = append(keys, f[0])
		}
	}
	return keys
}

// completeOpenStack refuses a VIM of OpenStack that names no way to Keystone, or two.
func (d *document) completeOpenStack(n *yaml.Node, v *VIM) {
	c := v.Credentials
	password, application := c.Username != "" || c.Password != "", c.ApplicationCredentialID != "" || c.ApplicationCredentialSecret != ""
	switch {
	case v.Clouds != "" || v.Cloud != "":
		d.completeClouds(n, v)
	case v.Endpoint == "":
		d.fail(n, "add endpoint: https://keystone:5000/v3, or clouds: file:/path and cloud: name", "the VIM can't be reached: \"endpoint\" is missing")
	case v.Insecure && v.CACert != "":
		d.fail(n, "remove one of them", "\"insecure\" and \"caCert\" contradict each other")
	case c.Token != "" || c.ClientCert != "" || c.ClientKey != "":
		d.fail(n, "give username and password, or applicationCredentialId and applicationCredentialSecret", "\"credentials\" holds what is for Kubernetes only")
	case password && application:
		d.fail(n, "keep username and password, or applicationCredentialId and applicationCredentialSecret", "\"credentials\" names a user and an application credential: it isn't clear as whom to come")
	case application:
		d.completeApplication(n, v)
	case !password:
		d.fail(n, "give credentials.username and credentials.password, or credentials.applicationCredentialId and credentials.applicationCredentialSecret", "\"credentials\" that Keystone takes are missing")
	case c.Username == "" || c.Password == "":
		d.fail(n, "give both", "\"credentials.username\" and \"credentials.password\" belong together")
	case v.Project == "":
		d.fail(n, "add project: the name or id of the project in which VNFs run", "\"project\" is missing")
	}
}

// completeApplication refuses an application credential that lacks a half, or stands beside what it says itself.
func (d *document) completeApplication(n *yaml.Node, v *VIM) {
	switch {
	case v.Credentials.ApplicationCredentialID == "" || v.Credentials.ApplicationCredentialSecret == "":
		d.fail(n, "give both", "\"credentials.applicationCredentialId\" and \"credentials.applicationCredentialSecret\" belong together")
	case v.Project != "" || v.ProjectDomain != "" || v.UserDomain != "":
		d.fail(n, "remove project, projectDomain and userDomain: an application credential is of one user and one project", "\"project\" and the domains can't stand beside an application credential")
	}
}

// completeClouds refuses what contradicts an entry of a clouds.yaml.
func (d *document) completeClouds(n *yaml.Node, v *VIM) {
	switch {
	case v.Clouds == "" || v.Cloud == "":
		d.fail(n, "give clouds: file:/path of a clouds.yaml, and cloud: the entry's name", "\"clouds\" and \"cloud\" belong together")
	case v.connects() || len(v.forOpenStack()) > 2:
		d.fail(n, "remove clouds and cloud, or endpoint, caCert, insecure, region, project, the domains and credentials", "\"clouds\" replaces everything else and can't stand beside it")
	}
}

// Gap says what a connection to OpenStack lacks, or where it contradicts itself, and what to
// do about it; "" for a complete one and for other types of VIM. Package desired/secret
// documents the keys of interfaceInfo and accessInfo.
func (c VIMConnection) Gap() (gap, remedy string) {
	if t, _ := NormalVIMType(c.VimType); t != VIMOpenStack {
		return "", ""
	}
	id, secret := c.AccessInfo["applicationCredentialId"], c.AccessInfo["applicationCredentialSecret"]
	user, password := c.AccessInfo["username"], c.AccessInfo["password"]
	switch {
	case c.InterfaceInfo["endpoint"] == "":
		return "interfaceInfo.endpoint is missing", "give Keystone's: https://keystone:5000/v3"
	case id+secret != "" && user+password != "":
		return "accessInfo names a user and an application credential: it isn't clear as whom to come", "keep username and password, or applicationCredentialId and applicationCredentialSecret"
	case (id == "") != (secret == ""):
		return "accessInfo.applicationCredentialId and accessInfo.applicationCredentialSecret belong together", "give both"
	case id != "" && c.AccessInfo["project"] != "":
		return "accessInfo.project can't stand beside an application credential", "remove it: an application credential is of one project"
	case id != "":
		return "", ""
	case user == "" || password == "":
		return "accessInfo lacks username and password, or applicationCredentialId and applicationCredentialSecret", "give what Keystone takes"
	case c.AccessInfo["project"] == "":
		return "accessInfo.project is missing", "give the name or id of the project in which the VNF runs"
	}
	return "", ""
}
