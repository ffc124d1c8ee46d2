//! Templates of directories.

/// What `%h %p %j %r` stand for.
#[derive(Clone, Debug)]
pub struct Place {
    /// Host name.
    pub host: String,
    /// Process id.
    pub process_id: u32,
    /// Job id, if the environment has one.
    pub job: Option<String>,
    /// Rank, if the environment has one.
    pub rank: Option<u32>,
}

/// Fills in a directory template. What is not known becomes `unknown`; the result has no `/` from values.
#[must_use]
pub fn expand(template: &str, place: &Place) -> String {
    let clean = |text: &str| text.replace(['/', '\0'], "_");
    let mut result = String::new();
    let mut letters = template.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            result.push(letter);
            continue;
        }
        match letters.next() {
            Some('h') => result.push_str(&clean(&place.host)),
            Some('p') => result.push_str(&place.process_id.to_string()),
            Some('j') => result.push_str(&clean(place.job.as_deref().unwrap_or("unknown"))),
            Some('r') => match place.rank {
                Some(rank) => result.push_str(&rank.to_string()),
                None => result.push_str("unknown"),
            },
            Some('%') => result.push('%'),
            Some(other) => {
                result.push('%');
                result.push(other);
            }
            None => result.push('%'),
        }
    }
    result
}
