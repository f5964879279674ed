//! Errors on the wire: [`Kind`] to gRPC code and back, one exhaustive table, and the typed detail beside it.
//!
//! The server makes statuses here, the client reads them. What a defect or damaged data looks like inside stays
//! inside: such an error goes out without its message.

use super::v1;
use crate::error::{Error, Kind};
use prost::Message as _;
use std::error::Error as _;
use tonic::{Code, Status};

const DETAIL_URL: &str = "type.googleapis.com/plimsoll.v1.ErrorDetail";

/// The gRPC code and the wire name of a kind.
const fn row(kind: Kind) -> (Code, v1::ErrorKind) {
    match kind {
        Kind::InvalidInput => (Code::InvalidArgument, v1::ErrorKind::InvalidInput),
        Kind::UnknownModel => (Code::NotFound, v1::ErrorKind::UnknownModel),
        Kind::OverBudget => (Code::OutOfRange, v1::ErrorKind::OverBudget),
        Kind::NotFound => (Code::NotFound, v1::ErrorKind::NotFound),
        Kind::Conflict => (Code::FailedPrecondition, v1::ErrorKind::Conflict),
        Kind::LimitExceeded => (Code::ResourceExhausted, v1::ErrorKind::LimitExceeded),
        Kind::Unavailable => (Code::Unavailable, v1::ErrorKind::Unavailable),
        Kind::Corrupt => (Code::DataLoss, v1::ErrorKind::Corrupt),
        Kind::Unsupported => (Code::Unimplemented, v1::ErrorKind::Unsupported),
        Kind::Internal => (Code::Internal, v1::ErrorKind::Internal),
    }
}

/// All kinds, for the way back.
const KINDS: [Kind; 10] = [
    Kind::InvalidInput,
    Kind::UnknownModel,
    Kind::OverBudget,
    Kind::NotFound,
    Kind::Conflict,
    Kind::LimitExceeded,
    Kind::Unavailable,
    Kind::Corrupt,
    Kind::Unsupported,
    Kind::Internal,
];

/// The gRPC code of a kind.
#[cfg(feature = "server")]
const fn code_of(kind: Kind) -> Code {
    row(kind).0
}

/// What an error says on the wire.
#[cfg(feature = "server")]
pub(crate) fn detail_of(error: &Error) -> v1::ErrorDetail {
    let inside = matches!(error.kind(), Kind::Internal | Kind::Corrupt);
    v1::ErrorDetail {
        kind: row(error.kind()).1.into(),
        message: if inside { error.kind().to_string() } else { error.message().to_owned() },
        path: error.path().map(str::to_owned),
        offset: error.offset(),
        suggestions: error.suggestions().to_vec(),
        findings: Vec::new(),
    }
}

/// The status of an error: code, message, and the typed detail in the form that every language's status library reads.
#[cfg(feature = "server")]
pub(crate) fn status_of(error: &Error) -> Status {
    status_with(error, &detail_of(error))
}

/// As [`status_of`], with a detail that says more.
#[cfg(feature = "server")]
pub(crate) fn status_with(error: &Error, detail: &v1::ErrorDetail) -> Status {
    let code = code_of(error.kind());
    let inside = matches!(error.kind(), Kind::Internal | Kind::Corrupt);
    let message = if inside { detail.message.clone() } else { error.to_string() };
    let packed = prost_types::Any { type_url: DETAIL_URL.to_owned(), value: detail.encode_to_vec() };
    let details = v1::StatusDetails { code: code.into(), message: message.clone(), details: vec![packed] };
    Status::with_details(code, message, details.encode_to_vec().into())
}

/// The error that a detail tells of.
pub(crate) fn error_from_detail(detail: v1::ErrorDetail) -> Error {
    let wire = detail.kind();
    let kind = KINDS.into_iter().find(|kind| row(*kind).1 == wire).unwrap_or(Kind::Internal);
    let mut error = Error::new(kind, detail.message).suggest(detail.suggestions);
    if let Some(path) = detail.path {
        error = error.at(path);
    }
    if let Some(offset) = detail.offset {
        error = error.at_offset(offset);
    }
    error
}

/// The detail that a status carries.
pub(crate) fn detail_in(status: &Status) -> Option<v1::ErrorDetail> {
    let details = v1::StatusDetails::decode(status.details()).ok()?;
    let found = details.details.into_iter().find(|any| any.type_url == DETAIL_URL)?;
    v1::ErrorDetail::decode(found.value.as_slice()).ok()
}

/// The error that a status tells of: its detail where it carries one, else the kind nearest to its code.
pub(crate) fn error_from_status(status: Status) -> Error {
    if let Some(detail) = detail_in(&status) {
        return error_from_detail(detail).caused_by(status);
    }
    let kind = match status.code() {
        Code::InvalidArgument => Kind::InvalidInput,
        Code::NotFound => Kind::NotFound,
        Code::FailedPrecondition | Code::Aborted | Code::AlreadyExists => Kind::Conflict,
        // Without a detail this is the transport, which found a message too large.
        Code::ResourceExhausted | Code::OutOfRange => Kind::LimitExceeded,
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => Kind::Unavailable,
        Code::DataLoss => Kind::Corrupt,
        Code::Unimplemented => Kind::Unsupported,
        // Made here of what the transport met: the connection broke.
        Code::Unknown | Code::Internal if status.source().is_some() => Kind::Unavailable,
        Code::Ok | Code::Unknown | Code::PermissionDenied | Code::Internal | Code::Unauthenticated => Kind::Internal,
    };
    Error::new(kind, format!("{}: {}", status.code(), status.message())).caused_by(status)
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_row() {
        let expected = [
            (Kind::InvalidInput, Code::InvalidArgument, "ERROR_KIND_INVALID_INPUT"),
            (Kind::UnknownModel, Code::NotFound, "ERROR_KIND_UNKNOWN_MODEL"),
            (Kind::OverBudget, Code::OutOfRange, "ERROR_KIND_OVER_BUDGET"),
            (Kind::NotFound, Code::NotFound, "ERROR_KIND_NOT_FOUND"),
            (Kind::Conflict, Code::FailedPrecondition, "ERROR_KIND_CONFLICT"),
            (Kind::LimitExceeded, Code::ResourceExhausted, "ERROR_KIND_LIMIT_EXCEEDED"),
            (Kind::Unavailable, Code::Unavailable, "ERROR_KIND_UNAVAILABLE"),
            (Kind::Corrupt, Code::DataLoss, "ERROR_KIND_CORRUPT"),
            (Kind::Unsupported, Code::Unimplemented, "ERROR_KIND_UNSUPPORTED"),
            (Kind::Internal, Code::Internal, "ERROR_KIND_INTERNAL"),
        ];
        assert_eq!(expected.map(|(kind, ..)| kind), KINDS);
        for (kind, code, name) in expected {
            assert_eq!(code_of(kind), code, "{kind}");
            assert_eq!(row(kind).1.as_str_name(), name);
            assert_eq!(name, format!("ERROR_KIND_{}", kind.as_str().to_uppercase()));
            assert_eq!(error_from_status(status_of(&Error::new(kind, "m"))).kind(), kind, "there and back");
        }
    }

    #[test]
    fn place_and_suggestions_survive_and_insides_do_not() {
        let error = Error::new(Kind::UnknownModel, "unknown model `x`").at("/model").at_offset(7).suggest(["y".to_owned()]);
        let back = error_from_status(status_of(&error));
        assert_eq!((back.message(), back.path(), back.offset()), ("unknown model `x`", Some("/model"), Some(7)));
        assert_eq!(back.suggestions(), ["y"]);
        let hidden = status_of(&Error::new(Kind::Internal, "table at 0x5 broke"));
        assert!(!format!("{hidden:?}").contains("0x5"));
    }

    #[test]
    fn foreign_statuses_still_read() {
        assert_eq!(error_from_status(Status::deadline_exceeded("late")).kind(), Kind::Unavailable);
        let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(error_from_status(Status::from_error(broken.into())).kind(), Kind::Unavailable);
        assert_eq!(error_from_status(Status::internal("said by a server")).kind(), Kind::Internal);
        assert_eq!(error_from_status(Status::with_details(Code::NotFound, "m", vec![255, 1].into())).kind(), Kind::NotFound);
    }
}
