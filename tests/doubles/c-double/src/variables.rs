//! The variables by which a test drives a double.

use crate::process::fatal;
use std::collections::BTreeMap;
use std::str::FromStr;

/// The variables with a prefix, by the rest of their names; what is taken out is known. A name or a value that there is
/// not ends the process: a test must not pass because of a misspelt one.
#[derive(Debug)]
pub struct Variables {
    prefix: &'static str,
    given: BTreeMap<String, String>,
}

impl Variables {
    /// The variables of this process, without that of [`crate::report`].
    pub fn with_prefix(prefix: &'static str) -> Variables {
        let name_after = |name: &str| name.strip_prefix(prefix).filter(|name| *name != "REPORT").map(str::to_owned);
        let given = std::env::vars_os().filter_map(|(name, value)| Some((name_after(name.to_str()?)?, value)));
        let given = given.map(|(name, value)| (name, value.to_string_lossy().into_owned()));
        Variables { prefix, given: given.collect() }
    }

    pub fn text(&mut self, name: &str) -> Option<String> {
        self.given.remove(name)
    }

    pub fn parsed<T>(&mut self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.text(name)?;
        let value = parse(&text);
        if value.is_none() {
            fatal(self.prefix, &format!("{text:?} is not a value of {name}"));
        }
        value
    }

    pub fn number<T: FromStr>(&mut self, name: &str, default: T) -> T {
        self.parsed(name, |text| text.parse().ok()).unwrap_or(default)
    }

    /// 0, the default, or 1.
    pub fn is_on(&mut self, name: &str) -> bool {
        self.word(name, &[("0", false), ("1", true)])
    }

    /// One of these words, the first of which is the default.
    pub fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> T {
        let of = |text: &str| words.iter().find(|(word, _)| *word == text);
        self.parsed(name, |text| of(text).map(|(_, value)| *value)).unwrap_or(words[0].1)
    }

    /// There are no others.
    pub fn end(self) {
        if let Some(name) = self.given.keys().next() {
            fatal(self.prefix, &format!("there is no variable {}{name}", self.prefix));
        }
    }
}
