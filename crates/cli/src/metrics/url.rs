//! Shows URLs in messages without their secrets.

use ureq::http::Uri;

/// A URL without user, password and query, which may contain a token. If the URL is invalid, less is shown: any text
/// before an `@` may be a password, and text after one may be a token.
pub(super) fn shown(url: &str) -> String {
    let is_scheme = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => (format!("{scheme}://"), rest),
        _ => (String::new(), url),
    };
    let query = ['?', '#'];
    let place = match rest.rsplit_once('@') {
        Some((secret, _)) if secret.contains(query) => "***".to_owned(),
        Some((_, place)) => format!("***@{place}"),
        None => rest.to_owned(),
    };
    match place.find(query) {
        Some(at) => format!("{scheme}{}?***", &place[..at]),
        None => format!("{scheme}{place}"),
    }
}

/// Whether a URL has a host, and a number as its port if it has one. Without a host, the request would be sent to
/// whatever stands in its place, such as the start of a password that contains a slash.
pub(super) fn has_place(url: &str) -> bool {
    let Ok(url) = url.parse::<Uri>() else { return false };
    let Some(authority) = url.authority() else { return false };
    !authority.host().is_empty() && (authority.port_u16().is_some() || authority.as_str().ends_with(authority.host()))
}
