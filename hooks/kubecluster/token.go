package kubecluster

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// tokenLife is how long a bootstrap token is good for, which is longer than a hook takes.
	tokenLife = time.Hour
	// clearTime bounds cleaning up, also where the run is being ended.
	clearTime = 5 * time.Second
)

// newToken returns a bootstrap token that the cluster doesn't know yet.
func (d *driver) newToken() string {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	secret := hex.EncodeToString(random)
	token := d.tokenID() + "." + secret
	d.keepSecret(token)
	d.keepSecret(secret)
	return token
}

// token makes a bootstrap token with which machines join, and returns it with what removes it
// again. Its Secret has the same name in all tries of an operation, so that one which a killed
// run left is overwritten.
func (d *driver) token(ctx context.Context, c *cluster) (token string, remove func(), err error) {
	token = d.newToken()
	id, secret, _ := strings.Cut(token, ".")
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: tokenPrefix + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"description": "Jibe: nodes of VNF instance " + d.in.Instance.ID + ", operation " + d.in.Operation.ID,
			"token-id":    id, "token-secret": secret,
			"expiration":                     time.Now().Add(tokenLife).UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
			"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
		},
	}
	secrets := c.CoreV1().Secrets(metav1.NamespaceSystem)
	err = retried(ctx, func() error {
		_, err := secrets.Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = secrets.Update(ctx, want, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return "", nil, fmt.Errorf("make a bootstrap token in the cluster: %w", err)
	}
	return token, func() { d.removeToken(ctx, c) }, nil
}

// tokenPrefix begins the names of the Secrets of bootstrap tokens.
const tokenPrefix = "bootstrap-token-"

// tokenID returns the public half of the operation's token.
func (d *driver) tokenID() string {
	sum := sha256.Sum256([]byte(d.in.Operation.ID))
	return hex.EncodeToString(sum[:])[:6]
}

// removeToken deletes the operation's token, also one that a killed run has left.
func (d *driver) removeToken(ctx context.Context, c *cluster) {
	clear, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTime)
	defer cancel()
	err := c.CoreV1().Secrets(metav1.NamespaceSystem).Delete(clear, tokenPrefix+d.tokenID(), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		d.say("the bootstrap token wasn't removed; it expires within %s: %v", tokenLife, err)
	}
}
