package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/images"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/pki"
)

const (
	dataVolume   = "data"
	dataMount    = "/var/lib/etcd"
	tlsDir       = "/etc/etcd/tls"
	clientTLSDir = tlsDir + "/client"
	agentRole    = "etcdmember-agent"
)

// certificates of one cluster.
type certificates struct {
	ca                   *pki.Authority
	server, peer, client pki.Pair
}

func (e *Etcd) issue() (*certificates, error) {
	ca, err := pki.NewAuthority(e.Name + "-ca")
	if err != nil {
		return nil, err
	}
	// Some more than there are replicas, so that a cluster can be scaled.
	pods := make([]string, e.Replicas+2)
	for i := range pods {
		pods[i] = e.Pod(i)
	}
	names := slices.Concat(pki.PodNames(pods, e.PeerService(), e.Namespace), pki.LocalNames())
	c := &certificates{ca: ca}
	// etcd's gateway to its own API dials itself with the server's certificate, so that it is a client's too.
	c.server, err = ca.Issue(pki.Subject{CommonName: e.Name + "-server", Server: true, Client: true,
		Names: append(pki.ServiceNames(e.ClientService(), e.Namespace), names...)})
	if err != nil {
		return nil, err
	}
	if c.peer, err = ca.Issue(pki.Subject{CommonName: e.Name + "-peer", Server: true, Client: true, Names: names}); err != nil {
		return nil, err
	}
	if c.client, err = ca.Issue(pki.Subject{CommonName: "root", Client: true}); err != nil {
		return nil, err
	}
	return c, nil
}

// create makes all objects of the cluster. What they look like is what config/samples shows users.
func (e *Etcd) create(ctx context.Context) error {
	c, create := e.lab.client, metav1.CreateOptions{}
	if e.opts.TLS {
		issued, err := e.issue()
		if err != nil {
			return err
		}
		e.tls = issued
		for use, pair := range map[string]pki.Pair{"server": issued.server, "peer": issued.peer, "client": issued.client} {
			secret := &corev1.Secret{
				ObjectMeta: e.meta(e.secret(use)),
				Type:       corev1.SecretTypeTLS,
				Data:       map[string][]byte{corev1.TLSCertKey: pair.Cert, corev1.TLSPrivateKeyKey: pair.Key, "ca.crt": issued.ca.Cert},
			}
			if _, err := c.CoreV1().Secrets(e.Namespace).Create(ctx, secret, create); err != nil {
				return fmt.Errorf("making the Secret of the %s certificate: %w", use, err)
			}
		}
	}
	for _, s := range []*corev1.Service{e.service(e.PeerService(), true), e.service(e.ClientService(), false)} {
		if _, err := c.CoreV1().Services(e.Namespace).Create(ctx, s, create); err != nil {
			return fmt.Errorf("making Service %s: %w", s.Name, err)
		}
	}
	if _, err := c.PolicyV1().PodDisruptionBudgets(e.Namespace).Create(ctx, e.budget(), create); err != nil {
		return fmt.Errorf("making the PodDisruptionBudget: %w", err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: e.meta(e.ServiceAccount())}
	if _, err := c.CoreV1().ServiceAccounts(e.Namespace).Create(ctx, account, create); err != nil {
		return fmt.Errorf("making the ServiceAccount: %w", err)
	}
	if e.opts.Agent {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: e.meta(e.ServiceAccount()),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: agentRole},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: e.Namespace}},
		}
		if _, err := c.RbacV1().RoleBindings(e.Namespace).Create(ctx, binding, create); err != nil {
			return fmt.Errorf("letting the agent do its work: %w", err)
		}
	}
	set := e.statefulSet()
	if e.opts.Mutate != nil {
		e.opts.Mutate(set)
	}
	if _, err := c.AppsV1().StatefulSets(e.Namespace).Create(ctx, set, create); err != nil {
		return fmt.Errorf("making the StatefulSet: %w", err)
	}
	return nil
}

func (e *Etcd) secret(use string) string { return e.Name + "-" + use + "-tls" }

// Labels of the cluster's objects, which select its pods.
func (e *Etcd) Labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "etcd", "app.kubernetes.io/instance": e.Name}
}

func (e *Etcd) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: e.Namespace, Labels: e.Labels()}
}

func (e *Etcd) service(name string, headless bool) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: e.meta(name),
		Spec: corev1.ServiceSpec{
			Selector: e.Labels(),
			Ports:    []corev1.ServicePort{{Name: "client", Port: 2379, TargetPort: intstr.FromString("client")}},
		},
	}
	if headless {
		s.Spec.ClusterIP = corev1.ClusterIPNone
		// Members must find each other to become ready.
		s.Spec.PublishNotReadyAddresses = true
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "peer", Port: 2380, TargetPort: intstr.FromString("peer")})
	}
	return s
}

func (e *Etcd) budget() *policyv1.PodDisruptionBudget {
	one, always := intstr.FromInt32(1), policyv1.AlwaysAllow
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: e.meta(e.Name),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             &one,
			UnhealthyPodEvictionPolicy: &always,
			Selector:                   &metav1.LabelSelector{MatchLabels: e.Labels()},
		},
	}
}

func (e *Etcd) statefulSet() *appsv1.StatefulSet {
	replicas, grace, user := int32(e.Replicas), int64(10), int64(images.NonRoot)
	yes, no, onMismatch := true, false, corev1.FSGroupChangeOnRootMismatch
	selector := &metav1.LabelSelector{MatchLabels: e.Labels()}
	pod := corev1.PodSpec{
		ServiceAccountName:            e.ServiceAccount(),
		AutomountServiceAccountToken:  &no,
		TerminationGracePeriodSeconds: &grace,
		EnableServiceLinks:            &no,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user, FSGroupChangePolicy: &onMismatch,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight:          100,
				PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: selector},
			}},
		}},
		Containers: []corev1.Container{e.etcdContainer()},
	}
	if e.opts.TLS {
		for _, use := range []string{"server", "peer", "client"} {
			pod.Volumes = append(pod.Volumes, corev1.Volume{Name: use + "-tls", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: e.secret(use)}}})
		}
	}
	if e.opts.Agent {
		pod.Containers = append(pod.Containers, e.agentContainer())
		pod.Volumes = append(pod.Volumes, tokenVolume())
	}
	claim := corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: dataVolume},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(e.opts.Size)}},
		},
	}
	if e.opts.StorageClass != "" {
		claim.Spec.StorageClassName = &e.opts.StorageClass
	}
	return &appsv1.StatefulSet{
		ObjectMeta: e.meta(e.Name),
		Spec: appsv1.StatefulSetSpec{
			Replicas:    &replicas,
			ServiceName: e.PeerService(),
			// A member that can't become ready without the others must not keep them from starting.
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			Selector:             selector,
			Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: e.Labels()}, Spec: pod},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim},
		},
	}
}

func (e *Etcd) etcdContainer() corev1.Container {
	host := "$(POD_NAME)." + e.PeerService() + "." + e.Namespace + ".svc"
	var initial []string
	for _, pod := range e.Pods() {
		initial = append(initial, fmt.Sprintf("%s=%s://%s.%s.%s.svc:2380", pod, e.scheme(), pod, e.PeerService(), e.Namespace))
	}
	command := []string{
		"/usr/local/bin/etcd",
		"--name=$(POD_NAME)",
		"--data-dir=" + dataMount + "/data",
		"--listen-client-urls=" + e.scheme() + "://0.0.0.0:2379",
		"--advertise-client-urls=" + e.scheme() + "://" + host + ":2379",
		"--listen-peer-urls=" + e.scheme() + "://0.0.0.0:2380",
		"--initial-advertise-peer-urls=" + e.scheme() + "://" + host + ":2380",
		"--initial-cluster=" + strings.Join(initial, ","),
		"--initial-cluster-token=" + e.Name,
		"--initial-cluster-state=new",
		// For the kubelet, which has no client certificate.
		"--listen-metrics-urls=http://0.0.0.0:2381",
	}
	if e.opts.TLS {
		command = append(command,
			"--client-cert-auth", "--trusted-ca-file="+tlsDir+"/server/ca.crt", "--cert-file="+tlsDir+"/server/tls.crt", "--key-file="+tlsDir+"/server/tls.key",
			"--peer-client-cert-auth", "--peer-trusted-ca-file="+tlsDir+"/peer/ca.crt", "--peer-cert-file="+tlsDir+"/peer/tls.crt", "--peer-key-file="+tlsDir+"/peer/tls.key",
		)
	}
	if e.opts.QuotaBytes > 0 {
		command = append(command, fmt.Sprintf("--quota-backend-bytes=%d", e.opts.QuotaBytes))
	}
	c := corev1.Container{
		Name:    EtcdContainer,
		Image:   images.Etcd(e.Version),
		Command: append(command, e.opts.ExtraArgs...),
		Env:     podEnv(),
		Ports: []corev1.ContainerPort{
			{Name: "client", ContainerPort: 2379}, {Name: "peer", ContainerPort: 2380}, {Name: "metrics", ContainerPort: 2381},
		},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: e.readyPath(), Port: intstr.FromString("metrics")}},
			PeriodSeconds: 1, TimeoutSeconds: 3, FailureThreshold: 2,
		},
		SecurityContext: restricted(),
		VolumeMounts:    []corev1.VolumeMount{{Name: dataVolume, MountPath: dataMount}},
	}
	if e.opts.TLS {
		for _, use := range []string{"server", "peer", "client"} {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: use + "-tls", MountPath: tlsDir + "/" + use, ReadOnly: true})
		}
	}
	return c
}

// readyPath of etcd itself: /readyz came with 3.5.11 and was brought back to 3.4.29; Debian's 3.4 is older.
func (e *Etcd) readyPath() string {
	if strings.HasPrefix(e.Version, "3.4.") {
		return "/health"
	}
	return "/readyz"
}

func (e *Etcd) agentContainer() corev1.Container {
	return corev1.Container{
		Name:  AgentContainer,
		Image: AgentImage,
		Args: append([]string{
			"sidecar", "--endpoint=https://127.0.0.1:2379",
			"--cacert=" + clientTLSDir + "/ca.crt", "--cert=" + clientTLSDir + "/tls.crt", "--key=" + clientTLSDir + "/tls.key",
			"--data-dir=" + dataMount + "/data", "--health-addr=:9980",
		}, e.opts.AgentArgs...),
		Env:   podEnv(),
		Ports: []corev1.ContainerPort{{Name: "agent", ContainerPort: 9980}},
		LivenessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("agent")}},
			PeriodSeconds: 20, TimeoutSeconds: 5,
		},
		SecurityContext: restricted(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: dataVolume, MountPath: dataMount, ReadOnly: true},
			{Name: "client-tls", MountPath: clientTLSDir, ReadOnly: true},
			{Name: tokenVolumeName, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
		},
	}
}

const tokenVolumeName = "agent-token"

// tokenVolume is what the kubelet mounts into every container unless told not to; here the agent gets it alone.
func tokenVolume() corev1.Volume {
	expiry := int64(3607)
	return corev1.Volume{Name: tokenVolumeName, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &expiry}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
	}}}}
}

func podEnv() []corev1.EnvVar {
	var env []corev1.EnvVar
	for _, v := range [][2]string{{"POD_NAME", "metadata.name"}, {"POD_NAMESPACE", "metadata.namespace"}, {"POD_UID", "metadata.uid"}} {
		env = append(env, corev1.EnvVar{Name: v[0], ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: v[1]}}})
	}
	return env
}

func restricted() *corev1.SecurityContext {
	yes, no := true, false
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no,
		ReadOnlyRootFilesystem:   &yes,
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}
