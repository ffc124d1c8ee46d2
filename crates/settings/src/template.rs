//! Templates for directory names.

#[derive(Clone, Debug)]
pub struct PathValues {
    pub host: String,
    pub process_id: u32,
    pub job: Option<String>,
    pub rank: Option<u32>,
}

/// Fills in a template. An unknown value becomes `unknown`; `/` in a value becomes `_`.
pub fn expand(template: &str, values: &PathValues) -> String {
    let clean = |text: &str| text.replace(['/', '\0'], "_");
    let unknown = || "unknown".to_owned();
    let mut result = String::new();
    let mut letters = template.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            result.push(letter);
            continue;
        }
        match letters.next() {
            Some('h') => result.push_str(&clean(&values.host)),
            Some('p') => result.push_str(&values.process_id.to_string()),
            Some('j') => result.push_str(&values.job.as_deref().map_or_else(unknown, clean)),
            Some('r') => result.push_str(&values.rank.map_or_else(unknown, |rank| rank.to_string())),
            Some('%') | None => result.push('%'),
            Some(other) => result.extend(['%', other]),
        }
    }
    result
}
