package local

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

// access is IAM: roles and policies as far as deployments and preflights ask for them. Nothing is permitted by them: what the
// caller may do is Config.Deny's.
func (l *Local) access() service.Service {
	return service.Service{Target: "AWSIdentityManagementV20100508", Name: "iam", Version: "2010-05-08", Namespace: "https://iam.amazonaws.com/doc/2010-05-08/", Operations: service.Operations{
		"CreateRole":                  service.Op(l.createRole),
		"GetRole":                     service.Op(l.getRole),
		"ListRoles":                   service.Op(l.listRoles),
		"UpdateRole":                  service.Op(l.updateRole),
		"DeleteRole":                  service.Op(l.deleteRole),
		"UpdateAssumeRolePolicy":      service.Op(l.updateAssumePolicy),
		"TagRole":                     service.Op(l.tagRole),
		"UntagRole":                   service.Op(l.untagRole),
		"ListRoleTags":                service.Op(l.listRoleTags),
		"PutRolePolicy":               service.Op(l.putRolePolicy),
		"GetRolePolicy":               service.Op(l.getRolePolicy),
		"DeleteRolePolicy":            service.Op(l.deleteRolePolicy),
		"ListRolePolicies":            service.Op(l.listRolePolicies),
		"AttachRolePolicy":            service.Op(l.attachRolePolicy),
		"DetachRolePolicy":            service.Op(l.detachRolePolicy),
		"ListAttachedRolePolicies":    service.Op(l.listAttached),
		"ListInstanceProfilesForRole": service.Op(l.listInstanceProfiles),
		"CreateServiceLinkedRole":     service.Op(l.createServiceLinkedRole),
		"CreatePolicy":                service.Op(l.createPolicy),
		"GetPolicy":                   service.Op(l.getPolicy),
		"GetPolicyVersion":            service.Op(l.getPolicyVersion),
		"ListPolicyVersions":          service.Op(l.listPolicyVersions),
		"DeletePolicy":                service.Op(l.deleteManagedPolicy),
		"GetUser":                     service.Op(l.getUser),
		"SimulatePrincipalPolicy":     service.Op(l.simulatePolicy),
	}}
}

// The role that Application Auto Scaling works under.
const (
	linkedService = "sagemaker.application-autoscaling.amazonaws.com"
	linkedPath    = "/aws-service-role/" + linkedService + "/"
	linkedRole    = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
)

type role struct {
	name, path, trust, about string
	created                  time.Time
	session                  int // seconds at most
	tags                     map[string]string
	inline                   map[string]string // policy documents by name
	attached                 map[string]bool   // ARNs of policies
}

type managedPolicy struct {
	name, path, document, about string
	created                     time.Time
	tags                        map[string]string
}

// identities is IAM's state, under Local's lock.
type identities struct {
	roles    map[string]*role
	policies map[string]*managedPolicy // by ARN
}

func newIdentities() identities {
	return identities{map[string]*role{}, map[string]*managedPolicy{}}
}

var roleForm = regexp.MustCompile(`^[\w+=,.@-]{1,64}$`)

func (l *Local) iamARN(kind, path, name string) string {
	return fmt.Sprintf("arn:aws:iam::%s:%s%s%s", l.cfg.Account, kind, path, name)
}

func (l *Local) roleARN(r *role) string { return l.iamARN("role", r.path, r.name) }

type roleOut struct {
	Path, RoleName, RoleId, Arn string
	CreateDate                  wire.Stamp
	AssumeRolePolicyDocument    string
	Description                 string `json:",omitempty"`
	MaxSessionDuration          int
	Tags                        []service.Tag `json:",omitempty"`
}

func (l *Local) roleOut(r *role) roleOut {
	return roleOut{r.path, r.name, fmt.Sprintf("AROA%016X", service.Hash(r.name)), l.roleARN(r), wire.At(r.created),
		escaped(r.trust), r.about, r.session, service.SortedTags(r.tags)}
}

type roleIn struct {
	RoleName, Path, AssumeRolePolicyDocument, PolicyDocument, Description *string
	PolicyName, PolicyArn, Marker                                         *string
	MaxSessionDuration, MaxItems                                          *int
	Tags                                                                  []service.Tag
	TagKeys                                                               []string
}

// oneRole is the role of that name. l.mu is held.
func (l *Local) oneRole(name *string) (*role, error) {
	r := l.identities.roles[service.Or(name, "")]
	if r == nil {
		return nil, wire.Refuse(wire.NoSuchEntity, "The role with name %s cannot be found.", service.Or(name, ""))
	}
	return r, nil
}

// withRole runs f on a role that exists, under the lock.
func withRole[Out any](l *Local, name *string, f func(*role) (*Out, error)) (*Out, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, err := l.oneRole(name)
	if err != nil {
		return nil, err
	}
	return f(r)
}

type oneRoleOut struct{ Role roleOut }

func (l *Local) createRole(_ context.Context, in *roleIn) (*oneRoleOut, error) {
	name, trust := service.Or(in.RoleName, ""), service.Or(in.AssumeRolePolicyDocument, "")
	switch {
	case !roleForm.MatchString(name):
		return nil, wire.Refuse(wire.ValidationError, "The specified value for roleName is invalid. It must contain only alphanumeric characters and/or the following: +=,.@_-")
	case !isPolicy(trust):
		return nil, wire.Refuse(wire.MalformedPolicy, "This policy contains invalid Json")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.identities.roles[name] != nil {
		return nil, wire.Refuse(wire.EntityExists, "Role with name %s already exists.", name)
	}
	r := l.addRole(name, service.Or(in.Path, "/"), trust)
	r.about, r.session = service.Or(in.Description, ""), service.Or(in.MaxSessionDuration, r.session)
	service.AddTags(r.tags, in.Tags)
	return &oneRoleOut{l.roleOut(r)}, nil
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

func (l *Local) addRole(name, path, trust string) *role {
	r := &role{name: name, path: path, trust: trust, created: l.now(), session: 3600,
		tags: map[string]string{}, inline: map[string]string{}, attached: map[string]bool{}}
	l.identities.roles[name] = r
	return r
}

// linkRole makes the service-linked role of the autoscaler, if it is not there. l.mu is held.
func (l *Local) linkRole() {
	if l.identities.roles[linkedRole] == nil {
		l.addRole(linkedRole, linkedPath,
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"`+linkedService+`"},"Action":"sts:AssumeRole"}]}`)
	}
}

func (l *Local) getRole(_ context.Context, in *roleIn) (*oneRoleOut, error) {
	return withRole(l, in.RoleName, func(r *role) (*oneRoleOut, error) { return &oneRoleOut{l.roleOut(r)}, nil })
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

func (l *Local) listRoles(_ context.Context, in *listRolesIn) (*listRolesOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := []roleOut{}
	for _, name := range slices.Sorted(maps.Keys(l.identities.roles)) {
		if r := l.identities.roles[name]; strings.HasPrefix(r.path, service.Or(in.PathPrefix, "/")) {
			o := l.roleOut(r)
			o.Tags = nil
			all = append(all, o)
		}
	}
	page, next, err := service.Page(all, in.MaxItems, in.Marker, 100, 1000, wire.ValidationError)
	return &listRolesOut{page, next != "", next}, err
}

func (l *Local) updateRole(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(l, in.RoleName, func(r *role) (*service.Nothing, error) {
		r.about, r.session = service.Or(in.Description, r.about), service.Or(in.MaxSessionDuration, r.session)
		return &service.Nothing{}, nil
	})
}

func (l *Local) deleteRole(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(l, in.RoleName, func(r *role) (*service.Nothing, error) {
		switch {
		case len(r.inline) > 0:
			return nil, wire.Refuse(wire.DeleteConflict, "Cannot delete entity, must delete policies first.")
		case len(r.attached) > 0:
			return nil, wire.Refuse(wire.DeleteConflict, "Cannot delete entity, must detach all policies first.")
		}
		delete(l.identities.roles, r.name)
		return &service.Nothing{}, nil
	})
}

func (l *Local) updateAssumePolicy(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(l, in.RoleName, func(r *role) (*service.Nothing, error) {
		if !isPolicy(service.Or(in.PolicyDocument, "")) {
			return nil, wire.Refuse(wire.MalformedPolicy, "This policy contains invalid Json")
		}
		r.trust = *in.PolicyDocument
		return &service.Nothing{}, nil
	})
}

func (l *Local) tagRole(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(l, in.RoleName, func(r *role) (*service.Nothing, error) {
		service.AddTags(r.tags, in.Tags)
		return &service.Nothing{}, nil
	})
}

func (l *Local) untagRole(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(l, in.RoleName, func(r *role) (*service.Nothing, error) {
		for _, k := range in.TagKeys {
			delete(r.tags, k)
		}
		return &service.Nothing{}, nil
	})
}

type roleTagsOut struct {
	Tags        []service.Tag
	IsTruncated bool
}

func (l *Local) listRoleTags(_ context.Context, in *roleIn) (*roleTagsOut, error) {
	return withRole(l, in.RoleName, func(r *role) (*roleTagsOut, error) { return &roleTagsOut{service.SortedTags(r.tags), false}, nil })
}

func (l *Local) putRolePolicy(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(l, in.RoleName, func(r *role) (*service.Nothing, error) {
		if in.PolicyName == nil {
			return nil, wire.Refuse(wire.ValidationError, "The parameter PolicyName is required.")
		}
		if err := checkPolicy(in.PolicyDocument); err != nil {
			return nil, err
		}
		r.inline[*in.PolicyName] = *in.PolicyDocument
		return &service.Nothing{}, nil
	})
}

type rolePolicyOut struct{ RoleName, PolicyName, PolicyDocument string }

func (l *Local) getRolePolicy(_ context.Context, in *roleIn) (*rolePolicyOut, error) {
	return withRole(l, in.RoleName, func(r *role) (*rolePolicyOut, error) {
		name := service.Or(in.PolicyName, "")
		if r.inline[name] == "" {
			return nil, noRolePolicy(name)
		}
		return &rolePolicyOut{r.name, name, escaped(r.inline[name])}, nil
	})
}

func noRolePolicy(name string) error {
	return wire.Refuse(wire.NoSuchEntity, "The role policy with name %s cannot be found.", name)
}

func (l *Local) deleteRolePolicy(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(l, in.RoleName, func(r *role) (*service.Nothing, error) {
		name := service.Or(in.PolicyName, "")
		if r.inline[name] == "" {
			return nil, noRolePolicy(name)
		}
		delete(r.inline, name)
		return &service.Nothing{}, nil
	})
}

type rolePoliciesOut struct {
	PolicyNames []string
	IsTruncated bool
}

func (l *Local) listRolePolicies(_ context.Context, in *roleIn) (*rolePoliciesOut, error) {
	return withRole(l, in.RoleName, func(r *role) (*rolePoliciesOut, error) {
		return &rolePoliciesOut{slices.Sorted(maps.Keys(r.inline)), false}, nil
	})
}

// attachRolePolicy takes the policies that were made here and any of AWS's own, arn:aws:iam::aws:policy/….
func (l *Local) attachRolePolicy(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(l, in.RoleName, func(r *role) (*service.Nothing, error) {
		arn := service.Or(in.PolicyArn, "")
		if l.identities.policies[arn] == nil && !strings.HasPrefix(arn, "arn:aws:iam::aws:policy/") {
			return nil, wire.Refuse(wire.NoSuchEntity, "Policy %s does not exist or is not attachable.", arn)
		}
		r.attached[arn] = true
		return &service.Nothing{}, nil
	})
}

func (l *Local) detachRolePolicy(_ context.Context, in *roleIn) (*service.Nothing, error) {
	return withRole(l, in.RoleName, func(r *role) (*service.Nothing, error) {
		arn := service.Or(in.PolicyArn, "")
		if !r.attached[arn] {
			return nil, wire.Refuse(wire.NoSuchEntity, "Policy %s was not found.", arn)
		}
		delete(r.attached, arn)
		return &service.Nothing{}, nil
	})
}

type attachedOut struct {
	AttachedPolicies []attachedPolicy
	IsTruncated      bool
}

type attachedPolicy struct{ PolicyName, PolicyArn string }

func (l *Local) listAttached(_ context.Context, in *roleIn) (*attachedOut, error) {
	return withRole(l, in.RoleName, func(r *role) (*attachedOut, error) {
		out := &attachedOut{AttachedPolicies: []attachedPolicy{}}
		for _, arn := range slices.Sorted(maps.Keys(r.attached)) {
			out.AttachedPolicies = append(out.AttachedPolicies, attachedPolicy{arn[strings.LastIndex(arn, "/")+1:], arn})
		}
		return out, nil
	})
}

type instanceProfilesOut struct {
	InstanceProfiles []service.Nothing
	IsTruncated      bool
}

func (l *Local) listInstanceProfiles(_ context.Context, in *roleIn) (*instanceProfilesOut, error) {
	return withRole(l, in.RoleName, func(*role) (*instanceProfilesOut, error) {
		return &instanceProfilesOut{[]service.Nothing{}, false}, nil
	})
}

type linkedRoleIn struct{ AWSServiceName *string }

func (l *Local) createServiceLinkedRole(_ context.Context, in *linkedRoleIn) (*oneRoleOut, error) {
	if service.Or(in.AWSServiceName, "") != linkedService {
		return nil, wire.Refuse(wire.InvalidInput, "Service %q is not part of this local account: %s is.", service.Or(in.AWSServiceName, ""), linkedService)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.identities.roles[linkedRole] != nil {
		return nil, wire.Refuse(wire.InvalidInput, "Service role name %s has been taken in this account, please try a different suffix.", linkedRole)
	}
	l.linkRole()
	return &oneRoleOut{l.roleOut(l.identities.roles[linkedRole])}, nil
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

func (l *Local) policyOut(arn string) policyOut {
	p, n := l.identities.policies[arn], 0
	for _, r := range l.identities.roles {
		if r.attached[arn] {
			n++
		}
	}
	return policyOut{p.name, fmt.Sprintf("ANPA%016X", service.Hash(arn)), arn, p.path, "v1", n, true, p.about, wire.At(p.created), wire.At(p.created), service.SortedTags(p.tags)}
}

func (l *Local) createPolicy(_ context.Context, in *policyIn) (*onePolicyOut, error) {
	name, document := service.Or(in.PolicyName, ""), service.Or(in.PolicyDocument, "")
	if !roleForm.MatchString(name) {
		return nil, wire.Refuse(wire.ValidationError, "The specified value for policyName is invalid. It must contain only alphanumeric characters and/or the following: +=,.@_-")
	}
	if err := checkPolicy(in.PolicyDocument); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	arn := l.iamARN("policy", service.Or(in.Path, "/"), name)
	if l.identities.policies[arn] != nil {
		return nil, wire.Refuse(wire.EntityExists, "A policy called %s already exists. Duplicate names are not allowed.", name)
	}
	p := &managedPolicy{name, service.Or(in.Path, "/"), document, service.Or(in.Description, ""), l.now(), map[string]string{}}
	service.AddTags(p.tags, in.Tags)
	l.identities.policies[arn] = p
	return &onePolicyOut{l.policyOut(arn)}, nil
}

// onePolicy is a policy that exists. l.mu is held.
func (l *Local) onePolicy(arn *string) (*managedPolicy, error) {
	p := l.identities.policies[service.Or(arn, "")]
	if p == nil {
		return nil, wire.Refuse(wire.NoSuchEntity, "Policy %s was not found.", service.Or(arn, ""))
	}
	return p, nil
}

func (l *Local) getPolicy(_ context.Context, in *policyIn) (*onePolicyOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.onePolicy(in.PolicyArn); err != nil {
		return nil, err
	}
	return &onePolicyOut{l.policyOut(*in.PolicyArn)}, nil
}

type policyVersion struct {
	VersionId        string
	IsDefaultVersion bool
	CreateDate       wire.Stamp
	Document         string `json:",omitempty"`
}

type policyVersionOut struct{ PolicyVersion policyVersion }

func (l *Local) getPolicyVersion(_ context.Context, in *policyIn) (*policyVersionOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, err := l.onePolicy(in.PolicyArn)
	if err != nil {
		return nil, err
	}
	if v := service.Or(in.VersionId, ""); v != "v1" {
		return nil, wire.Refuse(wire.NoSuchEntity, "Policy %s version %s does not exist: a policy here has one version.", *in.PolicyArn, v)
	}
	return &policyVersionOut{policyVersion{"v1", true, wire.At(p.created), escaped(p.document)}}, nil
}

type policyVersionsOut struct {
	Versions    []policyVersion
	IsTruncated bool
}

func (l *Local) listPolicyVersions(_ context.Context, in *policyIn) (*policyVersionsOut, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, err := l.onePolicy(in.PolicyArn)
	if err != nil {
		return nil, err
	}
	return &policyVersionsOut{[]policyVersion{{"v1", true, wire.At(p.created), ""}}, false}, nil
}

func (l *Local) deleteManagedPolicy(_ context.Context, in *policyIn) (*service.Nothing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.onePolicy(in.PolicyArn); err != nil {
		return nil, err
	}
	if l.policyOut(*in.PolicyArn).AttachmentCount > 0 {
		return nil, wire.Refuse(wire.DeleteConflict, "Cannot delete a policy attached to entities.")
	}
	delete(l.identities.policies, *in.PolicyArn)
	return &service.Nothing{}, nil
}

type userOut struct {
	User struct {
		Path, UserName, UserId, Arn string
		CreateDate                  wire.Stamp
	}
}

// getUser is the caller, who was always there.
func (l *Local) getUser(context.Context, *service.Nothing) (*userOut, error) {
	out := &userOut{}
	out.User.Path, out.User.UserName, out.User.UserId, out.User.Arn = "/", "local", "AIDALOCAL", l.account.User()
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
func (l *Local) simulatePolicy(_ context.Context, in *simulateIn) (*simulateOut, error) {
	out := &simulateOut{EvaluationResults: []evaluation{}}
	resources := in.ResourceArns
	if len(resources) == 0 {
		resources = []string{"*"}
	}
	for _, a := range in.ActionNames {
		for _, r := range resources {
			decision := "allowed"
			if l.denied(a) {
				decision = "explicitDeny"
			}
			out.EvaluationResults = append(out.EvaluationResults, evaluation{a, r, decision})
		}
	}
	return out, nil
}
