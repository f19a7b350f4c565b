package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
	"github.com/etcdmember/kubectl-etcdmember/pkg/source"
)

// liveOptions say whether the members themselves are asked, and how.
type liveOptions struct {
	Live, InCluster, Hash bool
	CACert, Cert, Key     string
	MemberTimeout         time.Duration

	// members are the only ones that are shown. Nil: all.
	members []string
	asker   *source.Live
}

// liveFlags are the names of the flags that mean something only where members are asked.
var liveFlags = []string{"cacert", "cert", "key", "member-timeout"}

func (o *liveOptions) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Live, "live", false, "ask the members themselves, through port-forwards; what they say counts for more than what is told of them")
	fs.BoolVar(&o.InCluster, "in-cluster", false, "with --live, which it implies, connect to the pods by their DNS names: for use inside of the cluster")
	fs.BoolVar(&o.Hash, "hash", false, "with --live, which it implies, compare the members' data by a checksum, for which each reads its whole database")
	fs.StringVar(&o.CACert, "cacert", "", "with --live, a file with the CA of the members' certificates; by default what their workload says")
	fs.StringVar(&o.Cert, "cert", "", "with --live, a file with the certificate to show to members; by default what their workload says")
	fs.StringVar(&o.Key, "key", "", "with --live, a file with the key of --cert")
	fs.DurationVar(&o.MemberTimeout, "member-timeout", etcd.DefaultTimeout, "with --live, how long one member may take for all its answers")
}

// wanted says whether members are asked.
func (o *liveOptions) wanted() bool { return o.Live || o.InCluster || o.Hash }

// longest is how long asking may take.
func (o *liveOptions) longest() time.Duration {
	switch {
	case !o.wanted():
		return 0
	case o.Hash:
		return 2 * o.MemberTimeout
	default:
		return o.MemberTimeout
	}
}

// completeLive checks the flags, and makes what asks members.
func (o *readOptions) completeLive() error {
	if !o.live.wanted() {
		for _, name := range liveFlags {
			if o.flags.Changed(name) {
				return fmt.Errorf("--%s is for --live alone", name)
			}
		}
		return nil
	}
	if o.flags.Changed("filename") {
		return errors.New("members can't be asked with -f, which contacts no cluster: leave out --live, --in-cluster and --hash")
	}
	if o.live.MemberTimeout <= 0 {
		return fmt.Errorf("--member-timeout must be more than 0, and is %s", o.live.MemberTimeout)
	}
	given, err := o.live.readTLS()
	if err != nil {
		return err
	}
	cfg, err := o.RESTConfig()
	if err != nil {
		return err
	}
	o.live.asker, err = source.NewLive(cfg, source.LiveOptions{
		Timeout: o.live.MemberTimeout, TLS: given, Hash: o.live.Hash, InCluster: o.live.InCluster,
	})
	return err
}

// readTLS reads the files once, so that a wrong one is told of before anybody is asked.
func (o *liveOptions) readTLS() (etcd.TLSPEM, error) {
	var given etcd.TLSPEM
	if (o.Cert == "") != (o.Key == "") {
		return given, errors.New("--cert and --key must be given both or neither")
	}
	for _, f := range []struct {
		flag, path string
		to         *[]byte
	}{{"cacert", o.CACert, &given.CA}, {"cert", o.Cert, &given.Cert}, {"key", o.Key, &given.Key}} {
		if f.path == "" {
			continue
		}
		content, err := os.ReadFile(f.path)
		if err != nil {
			return given, fmt.Errorf("can't read --%s: %w", f.flag, err)
		}
		if len(content) == 0 {
			return given, fmt.Errorf("--%s: %s is empty", f.flag, f.path)
		}
		*f.to = content
	}
	if _, err := given.TLSConfig(); err != nil {
		return given, fmt.Errorf("--cacert, --cert and --key can't be used: %w", err)
	}
	return given, nil
}

// askLive asks the members of those clusters of which something is shown. Time goes by meanwhile.
func (o *readOptions) askLive(ctx context.Context, clusters []model.Cluster, j *health.Options) error {
	if o.live.asker == nil {
		return nil
	}
	var ask []*model.Cluster
	for i := range clusters {
		if slices.ContainsFunc(clusters[i].Members, o.shows) {
			ask = append(ask, &clusters[i])
		}
	}
	if err := o.live.asker.Ask(ctx, ask); err != nil {
		return fmt.Errorf("can't ask the members: %w", err)
	}
	j.Now = o.Now()
	return nil
}

// shows says whether a member is shown.
func (o *readOptions) shows(m model.Member) bool {
	return o.selector.Matches(labels.Set(m.Labels)) && (o.live.members == nil || slices.Contains(o.live.members, m.Name))
}
