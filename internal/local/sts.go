package local

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"

	"loadline/internal/wire"
)

// serveSTS answers the query protocol: of STS, who is calling.
func (l *Local) serveSTS(w http.ResponseWriter, body []byte) {
	form, err := url.ParseQuery(string(body))
	action := form.Get("Action")
	w.Header().Set("Content-Type", "text/xml")
	if err != nil || action != "GetCallerIdentity" {
		l.missing("query " + action)
		w.WriteHeader(wire.Refuse(wire.InvalidAction, "").Status())
		fmt.Fprint(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>`+wire.InvalidAction+`</Code><Message>`)
		_ = xml.EscapeText(w, fmt.Appendf(nil, "%q is no action of this local account", action))
		fmt.Fprint(w, `</Message></Error></ErrorResponse>`)
		return
	}
	fmt.Fprintf(w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>`+
		`<Arn>arn:aws:iam::%[1]s:user/local</Arn><UserId>AIDALOCAL</UserId><Account>%[1]s</Account></GetCallerIdentityResult>`+
		`<ResponseMetadata><RequestId>%[2]s</RequestId></ResponseMetadata></GetCallerIdentityResponse>`, l.cfg.Account, requestID())
}
