//! The little that the commands need of option parsing.

use crate::failure::{Failure, Result};

/// Walks over the words of a command line.
pub(crate) struct Options<'a> {
    words: std::slice::Iter<'a, String>,
    pending: Option<&'a str>,
}

impl<'a> Options<'a> {
    pub(crate) fn new(words: &'a [String]) -> Self {
        Self {
            words: words.iter(),
            pending: None,
        }
    }

    /// The next word; `--name=value` is given as `--name`, and its value is the next [`Options::value`].
    pub(crate) fn next(&mut self) -> Result<Option<&'a str>> {
        if let Some(value) = self.pending {
            return Err(Failure::usage(format!(
                "an option that takes no value was given `{value}`"
            )));
        }
        let Some(word) = self.words.next() else {
            return Ok(None);
        };
        match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => {
                self.pending = Some(value);
                Ok(Some(name))
            }
            _ => Ok(Some(word)),
        }
    }

    /// The value of the option `name`, which `next` just returned.
    pub(crate) fn value(&mut self, name: &str) -> Result<&'a str> {
        self.pending
            .take()
            .or_else(|| self.words.next().map(String::as_str))
            .ok_or_else(|| Failure::usage(format!("{name} needs a value")))
    }
}

/// The answer to a word that a command does not know.
pub(crate) fn unknown(word: &str, help: &str) -> Failure {
    Failure::usage(format!(
        "`{word}` is not an option of this command\n\n{help}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn both_spellings_of_a_value_are_read() {
        let line = words("--nccl=1 --nccl 2 --fake rest");
        let mut options = Options::new(&line);
        assert_eq!(options.next().unwrap(), Some("--nccl"));
        assert_eq!(options.value("--nccl").unwrap(), "1");
        assert_eq!(options.next().unwrap(), Some("--nccl"));
        assert_eq!(options.value("--nccl").unwrap(), "2");
        assert_eq!(options.next().unwrap(), Some("--fake"));
        assert_eq!(options.next().unwrap(), Some("rest"));
        assert_eq!(options.next().unwrap(), None);
    }

    #[test]
    fn a_missing_value_and_an_unwanted_one_are_both_usage_errors() {
        let line = words("--nccl");
        let mut options = Options::new(&line);
        options.next().unwrap();
        assert!(
            options
                .value("--nccl")
                .unwrap_err()
                .message()
                .contains("needs a value")
        );
        let line = words("--fake=yes next");
        let mut options = Options::new(&line);
        options.next().unwrap();
        assert!(options.next().unwrap_err().message().contains("`yes`"));
    }
}
