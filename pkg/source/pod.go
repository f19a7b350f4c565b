package source

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

type podObject struct {
	Metadata objectMeta   `json:"metadata"`
	Spec     lax[podSpec] `json:"spec"`
	Status   lax[struct {
		Phase             lax[string]                `json:"phase"`
		Reason            lax[string]                `json:"reason"`
		Message           lax[string]                `json:"message"`
		Conditions        lax[[]lax[condition]]      `json:"conditions"`
		ContainerStatuses lax[[]lax[containerState]] `json:"containerStatuses"`
	}] `json:"status"`
}

type podSpec struct {
	NodeName   lax[string]           `json:"nodeName"`
	Containers lax[[]lax[container]] `json:"containers"`
	Volumes    lax[[]lax[struct {
		Name  lax[string] `json:"name"`
		Claim lax[struct {
			Name lax[string] `json:"claimName"`
		}] `json:"persistentVolumeClaim"`
	}]] `json:"volumes"`
}

type container struct {
	Name         lax[string]               `json:"name"`
	Command      lax[[]string]             `json:"command"`
	Args         lax[[]string]             `json:"args"`
	Env          lax[[]lax[envVar]]        `json:"env"`
	Ports        lax[[]lax[containerPort]] `json:"ports"`
	VolumeMounts lax[[]lax[struct {
		Name      lax[string] `json:"name"`
		MountPath lax[string] `json:"mountPath"`
	}]] `json:"volumeMounts"`
}

type envVar struct {
	Name  lax[string] `json:"name"`
	Value lax[string] `json:"value"`
}

type containerPort struct {
	Name          lax[string] `json:"name"`
	ContainerPort lax[number] `json:"containerPort"`
}

// settings is everything that configures the container's process, as one text to search in.
func (c container) settings() string {
	parts := slices.Concat(c.Command.Value, c.Args.Value)
	for _, e := range c.Env.Value {
		parts = append(parts, e.Value.Name.Value+"="+e.Value.Value.Value)
	}
	return strings.Join(parts, "\n")
}

// startsEtcd finds etcd where a shell is told to start it.
var startsEtcd = regexp.MustCompile(`(?m)(^|[;&|]|\bexec|\bthen|\bdo)\s*(\S*/)?etcd(\s|$)`)

// runsEtcd says whether the container starts etcd: by its program, by what a shell is told to do, or where the program is the
// image's, by options that nothing else has. A path that ends in etcd is a directory as often as not.
func (c container) runsEtcd() bool {
	if command := c.Command.Value; len(command) > 0 {
		if path.Base(command[0]) == "etcd" {
			return true
		}
		return startsEtcd.MatchString(strings.Join(slices.Concat(command[1:], c.Args.Value), "\n"))
	}
	if args := c.Args.Value; len(args) > 0 && !strings.HasPrefix(args[0], "-") && path.Base(args[0]) == "etcd" {
		return true
	}
	return strings.Contains(c.settings(), "-peer-urls") || strings.Contains(c.settings(), "_PEER_URLS")
}

// etcdContainer finds the container that runs etcd: the one of that name, the only one that starts it, or the only one.
func etcdContainer(cs []lax[container]) (container, bool) {
	var found []container
	for _, c := range cs {
		if c.Value.Name.Value == "etcd" {
			return c.Value, true
		}
		if c.Value.runsEtcd() {
			found = append(found, c.Value)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], true
	case len(cs) == 1:
		return cs[0].Value, true
	}
	return container{}, false
}

type containerState struct {
	Name         lax[string]                      `json:"name"`
	Ready        lax[bool]                        `json:"ready"`
	RestartCount lax[number]                      `json:"restartCount"`
	State        lax[map[string]lax[stateDetail]] `json:"state"`
}

type stateDetail struct {
	Reason     lax[string]  `json:"reason"`
	Message    lax[string]  `json:"message"`
	StartedAt  lax[instant] `json:"startedAt"`
	FinishedAt lax[instant] `json:"finishedAt"`
}

func (o *podObject) pod() model.Pod {
	st := o.Status.Value
	p := model.Pod{
		UID: o.Metadata.UID.Value, Phase: st.Phase.Value, Reason: st.Reason.Value, Message: st.Message.Value,
		Node: o.Spec.Value.NodeName.Value, Created: time.Time(o.Metadata.CreationTimestamp.Value),
		Deleting:     time.Time(o.Metadata.DeletionTimestamp.Value),
		RevisionHash: o.Metadata.Labels.Value["controller-revision-hash"],
		OwnerUID:     o.Metadata.controller().UID,
	}
	for _, c := range st.Conditions.Value {
		switch c.Value.Type {
		case "Ready":
			p.Ready, p.ReadyReason = c.Value.Status, c.Value.Reason.Value
		case "ContainersReady":
			p.ContainersReady = c.Value.Status
		case "PodScheduled":
			if c.Value.Status == "False" && p.Reason == "" {
				p.Reason, p.Message = c.Value.Reason.Value, c.Value.Message.Value
			}
		}
	}
	etcd, ok := etcdContainer(o.Spec.Value.Containers.Value)
	if !ok {
		return p
	}
	p.Etcd.Name = etcd.Name.Value
	for _, c := range st.ContainerStatuses.Value {
		if c.Value.Name.Value == p.Etcd.Name {
			p.Etcd = c.Value.container()
		}
	}
	return p
}

func (c containerState) container() model.Container {
	m := model.Container{Name: c.Name.Value, Ready: c.Ready.Value, Restarts: int(c.RestartCount.Value)}
	for state, detail := range c.State.Value {
		since := detail.Value.StartedAt
		switch state {
		case "running":
			m.State = "Running"
		case "waiting":
			m.State = "Waiting"
		case "terminated":
			m.State, since = "Terminated", detail.Value.FinishedAt
		default:
			continue
		}
		m.Reason, m.Message, m.Since = detail.Value.Reason.Value, detail.Value.Message.Value, time.Time(since.Value)
	}
	return m
}

// podClaim is a claim that a pod uses, and the name of the volume that it is in the pod: of a StatefulSet's pods, that of the
// claim's template.
type podClaim struct{ volume, claim string }

var dataDir = regexp.MustCompile(`(?i)data[-_]dir[=\s"']+([^\s"']+)`)

// usedClaims are the claims that the pod's etcd uses, its data's first, or those of the whole pod where it can't be told.
func (o *podObject) usedClaims() []podClaim {
	etcd, _ := etcdContainer(o.Spec.Value.Containers.Value)
	mounted, data := map[string]bool{}, ""
	dir := ""
	if m := dataDir.FindStringSubmatch(etcd.settings()); m != nil {
		dir = m[1]
	}
	longest := -1
	for _, m := range etcd.VolumeMounts.Value {
		name, at := m.Value.Name.Value, strings.TrimSuffix(m.Value.MountPath.Value, "/")
		mounted[name] = true
		if (dir == at || strings.HasPrefix(dir, at+"/")) && len(at) > longest {
			data, longest = name, len(at)
		}
	}
	var all, used []podClaim
	for _, v := range o.Spec.Value.Volumes.Value {
		c := podClaim{v.Value.Name.Value, v.Value.Claim.Value.Name.Value}
		if c.claim == "" {
			continue
		}
		all = append(all, c)
		if mounted[c.volume] {
			used = append(used, c)
		}
	}
	if len(used) == 0 {
		used = all
	}
	return dataFirst(used, data)
}

// dataFirst puts the claim of the data before others: that of the volume of a name, where it is known, else the one that is
// called data, or something with data in it.
func dataFirst(claims []podClaim, volume string) []podClaim {
	rank := func(c podClaim) int {
		switch {
		case volume != "" && c.volume == volume:
			return 0
		case c.volume == "data":
			return 1
		case strings.Contains(c.volume, "data"):
			return 2
		default:
			return 3
		}
	}
	slices.SortStableFunc(claims, func(a, b podClaim) int { return rank(a) - rank(b) })
	return claims
}

type claimObject struct {
	Metadata objectMeta `json:"metadata"`
	Spec     lax[struct {
		StorageClassName lax[string] `json:"storageClassName"`
		VolumeName       lax[string] `json:"volumeName"`
		Resources        lax[struct {
			Requests lax[struct {
				Storage lax[size] `json:"storage"`
			}] `json:"requests"`
		}] `json:"resources"`
	}] `json:"spec"`
	Status lax[struct {
		Phase    lax[string] `json:"phase"`
		Capacity lax[struct {
			Storage lax[size] `json:"storage"`
		}] `json:"capacity"`
	}] `json:"status"`
}

func (o *claimObject) claim() model.Claim {
	spec, st := o.Spec.Value, o.Status.Value
	return model.Claim{
		Name: o.Metadata.Name.Value, UID: o.Metadata.UID.Value, Phase: st.Phase.Value, Volume: spec.VolumeName.Value,
		StorageClass: spec.StorageClassName.Value,
		Requested:    int64(spec.Resources.Value.Requests.Value.Storage.Value), Capacity: int64(st.Capacity.Value.Storage.Value),
		Created: time.Time(o.Metadata.CreationTimestamp.Value), Deleting: time.Time(o.Metadata.DeletionTimestamp.Value),
	}
}

// volumeObject is a PersistentVolume.
type volumeObject struct {
	Metadata objectMeta `json:"metadata"`
	Spec     lax[struct {
		ReclaimPolicy lax[string] `json:"persistentVolumeReclaimPolicy"`
		Capacity      lax[struct {
			Storage lax[size] `json:"storage"`
		}] `json:"capacity"`
		CSI lax[struct {
			VolumeHandle lax[string] `json:"volumeHandle"`
		}] `json:"csi"`
	}] `json:"spec"`
}
