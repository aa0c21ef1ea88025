// Package coexistence holds tests alone: the transport beside others that trace and
// retry. Whatever stands above or below it, each request on the wire is one span of
// ours, and a run reads as one call with its attempts. And what SDKs that hide a cut
// say of it when the transport makes it an error.
package coexistence
