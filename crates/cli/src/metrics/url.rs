//! URLs in messages: without what others must not read.

use ureq::http::Uri;

/// A URL without its user, its password and its query, which may have a token. Of what is no good URL less is shown:
/// what stands before an `@` may be a password wherever that stands, and what stands behind one may be a token.
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

/// Whether a URL has a host, with a number as its port if it has one. What has none would be sent to what stands there
/// instead, such as the beginning of a password with a slash.
pub(super) fn has_place(url: &str) -> bool {
    let Ok(url) = url.parse::<Uri>() else { return false };
    let Some(authority) = url.authority() else { return false };
    !authority.host().is_empty() && (authority.port_u16().is_some() || authority.as_str().ends_with(authority.host()))
}
