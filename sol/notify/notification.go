package notify

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// Notification is sent to a subscriber: VnfLcmOperationOccurrenceNotification,
// or VnfIdentifierCreationNotification or VnfIdentifierDeletionNotification, which
// have its first attributes only (SOL003 clauses 5.5.2.17 to 5.5.2.19).
type Notification struct {
	ID             string            `json:"id"`
	Type           string            `json:"notificationType"`
	SubscriptionID string            `json:"subscriptionId"`
	TimeStamp      time.Time         `json:"timeStamp"`
	InstanceID     string            `json:"vnfInstanceId"`
	Links          NotificationLinks `json:"_links"`
	*OperationPart
}

// NotificationLinks is LccnLinks (SOL003 clause 5.5.3.4).
type NotificationLinks struct {
	Instance     Link  `json:"vnfInstance"`
	Subscription Link  `json:"subscription"`
	Operation    *Link `json:"vnfLcmOpOcc,omitempty"`
}

// OperationPart holds the attributes that only VnfLcmOperationOccurrenceNotification has.
type OperationPart struct {
	// Status is START or RESULT (LcmOperationOccurrenceNotificationStatus).
	Status      string              `json:"notificationStatus"`
	State       lcm.State           `json:"operationState"`
	Operation   lcm.Type            `json:"operation"`
	Automatic   bool                `json:"isAutomaticInvocation"`
	Verbosity   string              `json:"verbosity"`
	OperationID string              `json:"vnfLcmOpOccId"`
	Error       *lcm.ProblemDetails `json:"error,omitempty"`
	// With verbosity FULL:
	*ResourceChanges
	ChangedInfo    json.RawMessage      `json:"changedInfo,omitempty"`
	ChangedExtConn []ExtVirtualLinkInfo `json:"changedExtConnectivity,omitempty"`
	PkgChange      json.RawMessage      `json:"modificationsTriggeredByVnfPkgChange,omitempty"`
}

// NewNotification returns the subscription's notification of the event, as SOL003 v3.3.1 has
// it. It is pure: every delivery of the same event has the same notification, with the same id.
// base is the root of the API's URIs, without a slash at the end.
func NewNotification(subscription, verbosity, base string, e oplog.Event) Notification {
	return notificationBelow(base+lifecycleRoot, subscription, verbosity, e)
}

// notificationBelow is NewNotification with links below the URI of a version of the interface.
func notificationBelow(uri, subscription, verbosity string, e oplog.Event) Notification {
	n := Notification{
		ID:             NotificationID(subscription, e),
		Type:           notificationType(e.Type),
		SubscriptionID: subscription,
		TimeStamp:      e.Time.UTC(),
		InstanceID:     e.Instance,
	}
	n.Links.Instance.Href = uri + "/vnf_instances/" + e.Instance
	n.Links.Subscription.Href = uri + "/subscriptions/" + subscription
	if e.Type != oplog.OperationEvent {
		return n
	}
	op := e.Operation
	n.Links.Operation = &Link{uri + "/vnf_lcm_op_occs/" + op.ID}
	n.OperationPart = &OperationPart{
		Status: "RESULT", State: op.State, Operation: op.Type, Automatic: op.Automatic,
		Verbosity: verbosity, OperationID: op.ID,
	}
	if op.State == lcm.Starting || op.Type == lcm.ModifyInfo && op.Proposal == nil && op.State == lcm.Processing && op.Attempt <= 1 {
		n.Status = "START"
	}
	switch op.State {
	case lcm.FailedTemp, lcm.Failed, lcm.RolledBack:
		n.Error = op.Error
	}
	if verbosity == Full && n.Status == "RESULT" {
		n.ChangedInfo = op.ChangedInfo
		n.ResourceChanges = Affected(op)
		n.ChangedExtConn = ChangedExtConnectivity(op)
		if op.State == lcm.Completed {
			n.PkgChange = op.PkgChange
		}
	}
	return n
}

// NotificationID returns the same id for each delivery of one event to one subscription,
// whichever process makes it.
func NotificationID(subscription string, e oplog.Event) string {
	space, err := uuid.Parse(subscription)
	if err != nil {
		space = uuid.NewSHA1(uuid.NameSpaceOID, []byte(subscription))
	}
	name := strconv.AppendUint(nil, e.Seq, 10)
	if e.Replicated {
		name = e.Time.UTC().AppendFormat(append(name, ' '), time.RFC3339Nano)
	}
	return uuid.NewSHA1(space, name).String()
}
