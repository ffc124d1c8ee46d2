//! URLs in messages: without what others must not read.

/// A URL without its user, its password and its query, which may have a token.
pub(super) fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("***@{host}"),
        None => authority.to_owned(),
    };
    let path = match path.find(['?', '#']) {
        Some(at) => format!("{}{}", &path[..at], "?***"),
        None => path.to_owned(),
    };
    let separator = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{separator}{authority}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        for (url, expected) in [
            ("http://localhost:4318", "http://localhost:4318"),
            ("http://me:secret@host:1/v1/metrics", "http://***@host:1/v1/metrics"),
            ("http://me:p@ss@host", "http://***@host"),
            ("http://host/v1?token=secret", "http://host/v1?***"),
            ("http://host?token=secret", "http://host?***"),
            ("me:secret@host", "***@host"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }
}
