package access

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"loadline/internal/local/service"
	"loadline/internal/wire"
)

// IAM is roles and policies as far as deployments and preflights ask for them. Nothing is permitted by them: what the
// caller may do is Config.Deny's.
func (a *Access) IAM() service.Service {
	return service.Service{Target: "AWSIdentityManagementV20100508", Name: "iam", Version: "2010-05-08", Namespace: "https://iam.amazonaws.com/doc/2010-05-08/", Operations: service.Operations{
		"CreateRole":                  service.Op(a.createRole),
		"GetRole":                     service.Op(a.getRole),
		"ListRoles":                   service.Op(a.listRoles),
		"UpdateRole":                  service.Op(a.updateRole),
		"DeleteRole":                  service.Op(a.deleteRole),
		"UpdateAssumeRolePolicy":      service.Op(a.updateAssumePolicy),
		"TagRole":                     service.Op(a.tagRole),
		"UntagRole":                   service.Op(a.untagRole),
		"ListRoleTags":                service.Op(a.listRoleTags),
		"PutRolePolicy":               service.Op(a.putRolePolicy),
		"GetRolePolicy":               service.Op(a.getRolePolicy),
		"DeleteRolePolicy":            service.Op(a.deleteRolePolicy),
		"ListRolePolicies":            service.Op(a.listRolePolicies),
		"AttachRolePolicy":            service.Op(a.attachRolePolicy),
		"DetachRolePolicy":            service.Op(a.detachRolePolicy),
		"ListAttachedRolePolicies":    service.Op(a.listAttached),
		"ListInstanceProfilesForRole": service.Op(a.listInstanceProfiles),
		"CreateServiceLinkedRole":     service.Op(a.createServiceLinkedRole),
		"CreatePolicy":                service.Op(a.createPolicy),
		"GetPolicy":                   service.Op(a.getPolicy),
		"GetPolicyVersion":            service.Op(a.getPolicyVersion),
		"ListPolicyVersions":          service.Op(a.listPolicyVersions),
		"DeletePolicy":                service.Op(a.deleteManagedPolicy),
		"GetUser":                     service.Op(a.getUser),
		"SimulatePrincipalPolicy":     service.Op(a.simulatePolicy),
	}}
}

// The role that Application Auto Scaling works under.
const (
	linkedService = "sagemaker.application-autoscaling.amazonaws.com"
	linkedPath    = "/aws-service-role/" + linkedService + "/"
	linkedRole    = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
)

// Role of the account, as it is kept and saved.
type Role struct {
	Name, Path, Trust, About string
	Created                  time.Time
	Session                  int // seconds at most
	Tags                     map[string]string
	Inline                   map[string]string // policy documents by name
	Attached                 map[string]bool   // ARNs of policies
}

// Policy that was made in the account, as it is kept and saved.
type Policy struct {
	Name, Path, Document, About string
	Created                     time.Time
	Tags                        map[string]string
}

var roleForm = regexp.MustCompile(`^[\w+=,.@-]{1,64}$`)

func roleARN(of service.Account, path, name string) string { return of.IAM("role" + path + name) }

// LinkedRoleARN names the role that Application Auto Scaling works under.
func LinkedRoleARN(of service.Account) string { return roleARN(of, linkedPath, linkedRole) }

func (a *Access) policyARN(path, name string) string {
	return a.cfg.Account.IAM("policy" + path + name)
}

type roleOut struct {
	Path, RoleName, RoleId, Arn string
	CreateDate                  wire.Stamp
	AssumeRolePolicyDocument    string
	Description                 string `json:",omitempty"`
	MaxSessionDuration          int
	Tags                        []service.Tag `json:",omitempty"`
}

func (a *Access) roleOut(r *Role) roleOut {
	return roleOut{r.Path, r.Name, fmt.Sprintf("AROA%016X", service.Hash(r.Name)), roleARN(a.cfg.Account, r.Path, r.Name), wire.At(r.Created),
		escaped(r.Trust), r.About, r.Session, service.SortedTags(r.Tags)}
}

type roleIn struct {
	RoleName, Path, AssumeRolePolicyDocument, PolicyDocument, Description *string
	PolicyName, PolicyArn, Marker                                         *string
	MaxSessionDuration, MaxItems                                          *int
	Tags                                                                  []service.Tag
	TagKeys                                                               []string
}

// oneRole is the role of that name. a.mu is held.
func (a *Access) oneRole(name *string) (*Role, error) {
	r := a.roles[service.Or(name, "")]
	if r == nil {
		return nil, wire.Refuse(wire.NoSuchEntity, "The role with name %s cannot be found.", service.Or(name, ""))
	}
	return r, nil
}

// withRole runs f on a role that exists, under the lock.
func withRole[Out any](a *Access, name *string, f func(*Role) (*Out, error)) (*Out, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, err := a.oneRole(name)
	if err != nil {
		return nil, err
	}
	return f(r)
}

type oneRoleOut struct{ Role roleOut }

func (a *Access) createRole(_ context.Context, in *roleIn) (*oneRoleOut, error) {
	name, trust := service.Or(in.RoleName, ""), service.Or(in.AssumeRolePolicyDocument, "")
	switch {
	case !roleForm.MatchString(name):
		return nil, wire.Refuse(wire.ValidationError, "The specified value for roleName is invalid. It must contain only alphanumeric characters and/or the following: +=,.@_-")
	case !isPolicy(trust):
		return nil, wire.Refuse(wire.MalformedPolicy, "This policy contains invalid Json")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.roles[name] != nil {
		return nil, wire.Refuse(wire.EntityExists, "Role with name %s already exists.", name)
	}
	r := a.addRole(name, service.Or(in.Path, "/"), trust)
	r.About, r.Session = service.Or(in.Description, ""), service.Or(in.MaxSessionDuration, r.Session)
	service.AddTags(r.Tags, in.Tags)
	return &oneRoleOut{a.roleOut(r)}, nil
}

// escaped is a document as IAM tells it.
func escaped(document string) string {
	return strings.ReplaceAll(url.QueryEscape(document), "+", "%20")
}

func isPolicy(document string) bool {
	var any struct{ Statement json.RawMessage }
	return json.Unmarshal([]byte(document), &any) == nil && any.Statement != nil
}

// checkPolicy refuses a document that says nothing about what an identity may do.
func checkPolicy(document *string) error {
	switch d := service.Or(document, ""); {
	case !isPolicy(d):
		return wire.Refuse(wire.MalformedPolicy, "This policy contains invalid Json")
	case strings.Contains(d, `"Principal"`):
		return wire.Refuse(wire.MalformedPolicy, "Policy document should not specify a principal.")
	}
	return nil
}

func (a *Access) addRole(name, path, trust string) *Role {
	r := &Role{Name: name, Path: path, Trust: trust, Created: a.cfg.Now(), Session: 3600,
		Tags: map[string]string{}, Inline: map[string]string{}, Attached: map[string]bool{}}
	a.roles[name] = r
	return r
}

// linkRole makes the service-linked role of the autoscaler, if it is not there. a.mu is held.
func (a *Access) linkRole() {
	if a.roles[linkedRole] == nil {
		a.addRole(linkedRole, linkedPath,
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"`+linkedService+`"},"Action":"sts:AssumeRole"}]}`)
	}
}

func (a *Access) getRole(_ context.Context, in *roleIn) (*oneRoleOut, error) {
	return withRole(a, in.RoleName, func(r *Role) (*oneRoleOut, error) { return &oneRoleOut{a.roleOut(r)}, nil })
}

type listRolesIn struct {
	PathPrefix, Marker *string
	MaxItems           *int
}

type listRolesOut struct {
	Roles       []roleOut
	IsTruncated bool
	Marker      string `json:",omitempty"`
}

func (a *Access) listRoles(_ context.Context, in *listRolesIn) (*listRolesOut, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := []roleOut{}
	for _, name := range slices.Sorted(maps.Keys(a.roles)) {
		if r := a.roles[name]; strings.HasPrefix(r.Path, service.Or(in.PathPrefix, "/")) {
			o := a.roleOut(r)
			o.Tags = nil
			all = append(all, o)
		}
	}
	page, next, err := service.Page(all, in.MaxItems, in.Marker, 100, 1000, wire.ValidationError)
	return &listRolesOut{page, next != "", next}, err
}

func (a *Access) updateRole(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(a, in.RoleName, func(r *Role) (*service.Nothing, error) {
		r.About, r.Session = service.Or(in.Description, r.About), service.Or(in.MaxSessionDuration, r.Session)
		return &service.Nothing{}, nil
	})
}

func (a *Access) deleteRole(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(a, in.RoleName, func(r *Role) (*service.Nothing, error) {
		switch {
		case len(r.Inline) > 0:
			return nil, wire.Refuse(wire.DeleteConflict, "Cannot delete entity, must delete policies first.")
		case len(r.Attached) > 0:
			return nil, wire.Refuse(wire.DeleteConflict, "Cannot delete entity, must detach all policies first.")
		}
		delete(a.roles, r.Name)
		return &service.Nothing{}, nil
	})
}

func (a *Access) updateAssumePolicy(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(a, in.RoleName, func(r *Role) (*service.Nothing, error) {
		if !isPolicy(service.Or(in.PolicyDocument, "")) {
			return nil, wire.Refuse(wire.MalformedPolicy, "This policy contains invalid Json")
		}
		r.Trust = *in.PolicyDocument
		return &service.Nothing{}, nil
	})
}

func (a *Access) tagRole(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(a, in.RoleName, func(r *Role) (*service.Nothing, error) {
		service.AddTags(r.Tags, in.Tags)
		return &service.Nothing{}, nil
	})
}

func (a *Access) untagRole(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(a, in.RoleName, func(r *Role) (*service.Nothing, error) {
		for _, k := range in.TagKeys {
			delete(r.Tags, k)
		}
		return &service.Nothing{}, nil
	})
}

type roleTagsOut struct {
	Tags        []service.Tag
	IsTruncated bool
}

func (a *Access) listRoleTags(_ context.Context, in *roleIn) (*roleTagsOut, error) {
	return withRole(a, in.RoleName, func(r *Role) (*roleTagsOut, error) { return &roleTagsOut{service.SortedTags(r.Tags), false}, nil })
}

func (a *Access) putRolePolicy(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(a, in.RoleName, func(r *Role) (*service.Nothing, error) {
		if in.PolicyName == nil {
			return nil, wire.Refuse(wire.ValidationError, "The parameter PolicyName is required.")
		}
		if err := checkPolicy(in.PolicyDocument); err != nil {
			return nil, err
		}
		r.Inline[*in.PolicyName] = *in.PolicyDocument
		return &service.Nothing{}, nil
	})
}

type rolePolicyOut struct{ RoleName, PolicyName, PolicyDocument string }

func (a *Access) getRolePolicy(_ context.Context, in *roleIn) (*rolePolicyOut, error) {
	return withRole(a, in.RoleName, func(r *Role) (*rolePolicyOut, error) {
		name := service.Or(in.PolicyName, "")
		if r.Inline[name] == "" {
			return nil, noRolePolicy(name)
		}
		return &rolePolicyOut{r.Name, name, escaped(r.Inline[name])}, nil
	})
}

func noRolePolicy(name string) error {
	return wire.Refuse(wire.NoSuchEntity, "The role policy with name %s cannot be found.", name)
}

func (a *Access) deleteRolePolicy(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(a, in.RoleName, func(r *Role) (*service.Nothing, error) {
		name := service.Or(in.PolicyName, "")
		if r.Inline[name] == "" {
			return nil, noRolePolicy(name)
		}
		delete(r.Inline, name)
		return &service.Nothing{}, nil
	})
}

type rolePoliciesOut struct {
	PolicyNames []string
	IsTruncated bool
}

func (a *Access) listRolePolicies(_ context.Context, in *roleIn) (*rolePoliciesOut, error) {
	return withRole(a, in.RoleName, func(r *Role) (*rolePoliciesOut, error) {
		return &rolePoliciesOut{slices.Sorted(maps.Keys(r.Inline)), false}, nil
	})
}

// attachRolePolicy takes the policies that were made here and any of AWS's own, arn:aws:iam::aws:policy/….
func (a *Access) attachRolePolicy(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(a, in.RoleName, func(r *Role) (*service.Nothing, error) {
		arn := service.Or(in.PolicyArn, "")
		if a.policies[arn] == nil && !strings.HasPrefix(arn, "arn:aws:iam::aws:policy/") {
			return nil, wire.Refuse(wire.NoSuchEntity, "Policy %s does not exist or is not attachable.", arn)
		}
		r.Attached[arn] = true
		return &service.Nothing{}, nil
	})
}

func (a *Access) detachRolePolicy(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(a, in.RoleName, func(r *Role) (*service.Nothing, error) {
		arn := service.Or(in.PolicyArn, "")
		if !r.Attached[arn] {
			return nil, wire.Refuse(wire.NoSuchEntity, "Policy %s was not found.", arn)
		}
		delete(r.Attached, arn)
		return &service.Nothing{}, nil
	})
}

type attachedOut struct {
	AttachedPolicies []attachedPolicy
	IsTruncated      bool
}

type attachedPolicy struct{ PolicyName, PolicyArn string }

func (a *Access) listAttached(_ context.Context, in *roleIn) (*attachedOut, error) {
	return withRole(a, in.RoleName, func(r *Role) (*attachedOut, error) {
		out := &attachedOut{AttachedPolicies: []attachedPolicy{}}
		for _, arn := range slices.Sorted(maps.Keys(r.Attached)) {
			out.AttachedPolicies = append(out.AttachedPolicies, attachedPolicy{arn[strings.LastIndex(arn, "/")+1:], arn})
		}
		return out, nil
	})
}

type instanceProfilesOut struct {
	InstanceProfiles []service.Nothing
	IsTruncated      bool
}

func (a *Access) listInstanceProfiles(_ context.Context, in *roleIn) (*instanceProfilesOut, error) {
	return withRole(a, in.RoleName, func(*Role) (*instanceProfilesOut, error) {
		return &instanceProfilesOut{[]service.Nothing{}, false}, nil
	})
}

type linkedRoleIn struct{ AWSServiceName *string }

func (a *Access) createServiceLinkedRole(_ context.Context, in *linkedRoleIn) (*oneRoleOut, error) {
	if service.Or(in.AWSServiceName, "") != linkedService {
		return nil, wire.Refuse(wire.InvalidInput, "Service %q is not part of this local account: %s is.", service.Or(in.AWSServiceName, ""), linkedService)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.roles[linkedRole] != nil {
		return nil, wire.Refuse(wire.InvalidInput, "Service role name %s has been taken in this account, please try a different suffix.", linkedRole)
	}
	a.linkRole()
	return &oneRoleOut{a.roleOut(a.roles[linkedRole])}, nil
}

type policyIn struct {
	PolicyName, PolicyArn, Path, PolicyDocument, Description, VersionId *string
	Tags                                                                []service.Tag
}

type onePolicyOut struct{ Policy policyOut }

type policyOut struct {
	PolicyName, PolicyId, Arn, Path, DefaultVersionId string
	AttachmentCount                                   int
	IsAttachable                                      bool
	Description                                       string `json:",omitempty"`
	CreateDate, UpdateDate                            wire.Stamp
	Tags                                              []service.Tag `json:",omitempty"`
}

func (a *Access) policyOut(arn string) policyOut {
	p, n := a.policies[arn], 0
	for _, r := range a.roles {
		if r.Attached[arn] {
			n++
		}
	}
	return policyOut{p.Name, fmt.Sprintf("ANPA%016X", service.Hash(arn)), arn, p.Path, "v1", n, true, p.About, wire.At(p.Created), wire.At(p.Created), service.SortedTags(p.Tags)}
}

func (a *Access) createPolicy(_ context.Context, in *policyIn) (*onePolicyOut, error) {
	name, document := service.Or(in.PolicyName, ""), service.Or(in.PolicyDocument, "")
	if !roleForm.MatchString(name) {
		return nil, wire.Refuse(wire.ValidationError, "The specified value for policyName is invalid. It must contain only alphanumeric characters and/or the following: +=,.@_-")
	}
	if err := checkPolicy(in.PolicyDocument); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	arn := a.policyARN(service.Or(in.Path, "/"), name)
	if a.policies[arn] != nil {
		return nil, wire.Refuse(wire.EntityExists, "A policy called %s already exists. Duplicate names are not allowed.", name)
	}
	p := &Policy{name, service.Or(in.Path, "/"), document, service.Or(in.Description, ""), a.cfg.Now(), map[string]string{}}
	service.AddTags(p.Tags, in.Tags)
	a.policies[arn] = p
	return &onePolicyOut{a.policyOut(arn)}, nil
}

// onePolicy is a policy that exists. a.mu is held.
func (a *Access) onePolicy(arn *string) (*Policy, error) {
	p := a.policies[service.Or(arn, "")]
	if p == nil {
		return nil, wire.Refuse(wire.NoSuchEntity, "Policy %s was not found.", service.Or(arn, ""))
	}
	return p, nil
}

func (a *Access) getPolicy(_ context.Context, in *policyIn) (*onePolicyOut, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.onePolicy(in.PolicyArn); err != nil {
		return nil, err
	}
	return &onePolicyOut{a.policyOut(*in.PolicyArn)}, nil
}

type policyVersion struct {
	VersionId        string
	IsDefaultVersion bool
	CreateDate       wire.Stamp
	Document         string `json:",omitempty"`
}

type policyVersionOut struct{ PolicyVersion policyVersion }

func (a *Access) getPolicyVersion(_ context.Context, in *policyIn) (*policyVersionOut, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, err := a.onePolicy(in.PolicyArn)
	if err != nil {
		return nil, err
	}
	if v := service.Or(in.VersionId, ""); v != "v1" {
		return nil, wire.Refuse(wire.NoSuchEntity, "Policy %s version %s does not exist: a policy here has one version.", *in.PolicyArn, v)
	}
	return &policyVersionOut{policyVersion{"v1", true, wire.At(p.Created), escaped(p.Document)}}, nil
}

type policyVersionsOut struct {
	Versions    []policyVersion
	IsTruncated bool
}

func (a *Access) listPolicyVersions(_ context.Context, in *policyIn) (*policyVersionsOut, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, err := a.onePolicy(in.PolicyArn)
	if err != nil {
		return nil, err
	}
	return &policyVersionsOut{[]policyVersion{{"v1", true, wire.At(p.Created), ""}}, false}, nil
}

func (a *Access) deleteManagedPolicy(_ context.Context, in *policyIn) (*service.Nothing, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.onePolicy(in.PolicyArn); err != nil {
		return nil, err
	}
	if a.policyOut(*in.PolicyArn).AttachmentCount > 0 {
		return nil, wire.Refuse(wire.DeleteConflict, "Cannot delete a policy attached to entities.")
	}
	delete(a.policies, *in.PolicyArn)
	return &service.Nothing{}, nil
}

type userOut struct {
	User struct {
		Path, UserName, UserId, Arn string
		CreateDate                  wire.Stamp
	}
}

// getUser is the caller, who was always there.
func (a *Access) getUser(context.Context, *service.Nothing) (*userOut, error) {
	out := &userOut{}
	out.User.Path, out.User.UserName, out.User.UserId, out.User.Arn = "/", "local", "AIDALOCAL", a.cfg.Account.User()
	out.User.CreateDate = wire.At(time.Unix(0, 0))
	return out, nil
}

type simulateIn struct {
	PolicySourceArn           *string
	ActionNames, ResourceArns []string
}

type simulateOut struct {
	EvaluationResults []evaluation
	IsTruncated       bool
}

type evaluation struct{ EvalActionName, EvalResourceName, EvalDecision string }

// simulatePolicy tells what Config.Deny says: whoever is asked about, it is the caller.
func (a *Access) simulatePolicy(_ context.Context, in *simulateIn) (*simulateOut, error) {
	out := &simulateOut{EvaluationResults: []evaluation{}}
	resources := in.ResourceArns
	if len(resources) == 0 {
		resources = []string{"*"}
	}
	for _, action := range in.ActionNames {
		for _, r := range resources {
			decision := "allowed"
			if a.Denied(action) {
				decision = "explicitDeny"
			}
			out.EvaluationResults = append(out.EvaluationResults, evaluation{action, r, decision})
		}
	}
	return out, nil
}
