package wire

import "fmt"

// Fault is an answer that says no, by its AWS code.
type Fault struct {
	Code, Message string
	More          map[string]any // further members of the answer
	HTTP          int            // status, where it is not the code's usual one; 0: it is
}

func (f *Fault) Error() string { return f.Code + ": " + f.Message }

// Refuse is a fault of that code.
func Refuse(code, format string, args ...any) *Fault {
	return &Fault{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Status is the HTTP status that the fault travels under.
func (f *Fault) Status() int {
	switch k, known := codes[f.Code]; {
	case f.HTTP != 0:
		return f.HTTP
	case known:
		return k.status
	}
	return 500
}

// The codes that are answered. CloudWatch's are the names of their shapes, as CBOR has them.
const (
	ValidationException = "ValidationException"
	LimitExceeded       = "ResourceLimitExceeded"
	UnknownOperation    = "UnknownOperationException"
	Serialization       = "SerializationException"
	InternalFailure     = "InternalFailure"

	ObjectNotFound   = "ObjectNotFoundException"
	InvalidNextToken = "InvalidNextTokenException"

	ValidationError     = "ValidationError"
	ModelError          = "ModelError"
	ServiceUnavailable  = "ServiceUnavailable"
	StreamError         = "ModelStreamError"
	RequestEntityTooBig = "RequestEntityTooLarge"

	InputValidation   = "InputValidationError"
	InternalError     = "InternalServerError"
	StreamUnavailable = "ServiceUnavailableError"

	MissingParameter    = "MissingRequiredParameterException"
	InvalidValue        = "InvalidParameterValueException"
	InvalidCombination  = "InvalidParameterCombinationException"
	CloudwatchNextToken = "InvalidNextToken"
	CloudwatchLimit     = "LimitExceededException"

	InvalidAction = "InvalidAction"

	CloudwatchNotFound = "ResourceNotFound"
	InvalidFormat      = "InvalidFormatFault"
	DashboardInvalid   = "DashboardInvalidInputError"
	DashboardNotFound  = "DashboardNotFoundError"

	NoSuchEntity     = "NoSuchEntity"
	EntityExists     = "EntityAlreadyExists"
	DeleteConflict   = "DeleteConflict"
	MalformedPolicy  = "MalformedPolicyDocument"
	InvalidInput     = "InvalidInput"
	NoSuchResource   = "NoSuchResourceException"
	IllegalArgument  = "IllegalArgumentException"
	ResourceNotFound = "ResourceNotFoundException"
	ResourceExists   = "ResourceAlreadyExistsException"
	InvalidParameter = "InvalidParameterException"
	ResourceInUse    = "ResourceInUse"

	AccessDenied = "AccessDeniedException"
	FailedAccess = "FailedResourceAccessException"
	Throttling   = "ThrottlingException"
	Unavailable  = "ServiceUnavailableException"
	BadSignature = "InvalidSignatureException"
	NoSignature  = "MissingAuthenticationTokenException"
	UnknownKey   = "UnrecognizedClientException"
)

// codes is every code's HTTP status, and the name that CloudWatch's older protocols and its SDKs call it by, where that
// is another.
var codes = map[string]struct {
	status int
	query  string
}{
	ValidationException: {400, ""},
	LimitExceeded:       {400, ""},
	UnknownOperation:    {400, ""},
	Serialization:       {400, ""},
	InternalFailure:     {500, ""},

	ObjectNotFound:   {400, ""},
	InvalidNextToken: {400, ""},

	ValidationError:     {400, ""},
	ModelError:          {424, ""},
	ServiceUnavailable:  {503, ""},
	StreamError:         {400, ""}, // it travels within a stream
	RequestEntityTooBig: {413, ""},

	InputValidation:   {400, ""},
	InternalError:     {500, ""},
	StreamUnavailable: {503, ""},

	MissingParameter:    {400, "MissingParameter"},
	InvalidValue:        {400, "InvalidParameterValue"},
	InvalidCombination:  {400, "InvalidParameterCombination"},
	CloudwatchNextToken: {400, ""},
	CloudwatchLimit:     {400, "LimitExceeded"},

	InvalidAction: {400, ""},

	CloudwatchNotFound: {404, ""},
	InvalidFormat:      {400, "InvalidFormat"},
	DashboardInvalid:   {400, "InvalidParameterInput"},
	DashboardNotFound:  {404, "ResourceNotFound"},

	NoSuchEntity:     {404, ""},
	EntityExists:     {409, ""},
	DeleteConflict:   {409, ""},
	MalformedPolicy:  {400, ""},
	InvalidInput:     {400, ""},
	NoSuchResource:   {400, ""},
	IllegalArgument:  {400, ""},
	ResourceNotFound: {400, ""},
	ResourceExists:   {400, ""},
	InvalidParameter: {400, ""},
	ResourceInUse:    {400, ""},

	AccessDenied: {403, "AccessDenied"},
	FailedAccess: {400, ""},
	Throttling:   {400, "Throttling"},
	Unavailable:  {503, "ServiceUnavailable"},
	BadSignature: {403, "SignatureDoesNotMatch"},
	NoSignature:  {403, "MissingAuthenticationToken"},
	UnknownKey:   {403, "InvalidClientTokenId"},
}
