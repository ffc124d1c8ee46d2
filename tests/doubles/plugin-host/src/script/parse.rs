//! Lines to blocks.

use std::sync::Arc;

use super::command::{Command, Place};

/// Statements that run one after the other.
pub(crate) type Block = Arc<[Statement]>;

/// One line, and for `repeat`, `thread`, `parallel` and `fork` the block that follows.
#[derive(Debug)]
pub(crate) struct Statement {
    /// The line's number in the file.
    pub(crate) line: usize,
    words: Vec<String>,
    /// Made once, unless a word has `%i` or `%t` in it.
    fixed: Option<Command>,
    /// The block in braces; empty for other lines.
    pub(crate) block: Block,
}

impl Statement {
    /// The command, with `%t` and `%i` replaced.
    pub(crate) fn command(&self, place: Place) -> Result<Command, String> {
        if let Some(command) = &self.fixed {
            return Ok(command.clone());
        }
        Command::new(&self.words, place)
    }

    /// The line's words, for messages.
    pub(crate) fn text(&self) -> String {
        self.words.join(" ")
    }
}

/// Reads a script. Every line is checked, whether it will run or not.
pub(crate) fn parse(text: &str) -> Result<Block, String> {
    let mut open: Vec<(Statement, Vec<Statement>)> = Vec::new();
    let mut top: Vec<Statement> = Vec::new();
    for (place, line) in text.lines().enumerate() {
        let number = place + 1;
        let fail = |reason: String| format!("line {number}: {reason}");
        let code = strip_comment(line);
        let mut words: Vec<String> = code.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            continue;
        }
        if words == ["}"] {
            let (mut owner, block) = open.pop().ok_or_else(|| fail("a } without its {".into()))?;
            owner.block = block.into();
            open.last_mut().map_or(&mut top, |(_, block)| block).push(owner);
            continue;
        }
        let opens = words.last().is_some_and(|word| word == "{");
        if opens {
            words.pop();
        }
        let command = Command::new(&words, Place::default()).map_err(fail)?;
        if command.takes_block() != opens {
            let problem = if opens { "takes no { block" } else { "needs a { at the end of the line" };
            return Err(fail(format!("{:?} {problem}", words.join(" "))));
        }
        let fixed = !words.iter().any(|word| word.contains('%'));
        let statement =
            Statement { line: number, words, fixed: fixed.then_some(command), block: Arc::from(Vec::new()) };
        if opens {
            open.push((statement, Vec::new()));
        } else {
            open.last_mut().map_or(&mut top, |(_, block)| block).push(statement);
        }
    }
    match open.last() {
        Some((owner, _)) => Err(format!("line {}: this {{ has no }}", owner.line)),
        None => Ok(top.into()),
    }
}

/// A `#` that begins a word begins a comment.
fn strip_comment(line: &str) -> &str {
    let mut before = ' ';
    for (place, character) in line.char_indices() {
        if character == '#' && before.is_whitespace() {
            return &line[..place];
        }
        before = character;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_nest() {
        let block = parse("load\nrepeat 3 { # three\n  thread a {\n stop x%i\n }\n}\n# end\n").unwrap();
        assert_eq!(block.len(), 2);
        assert_eq!(block[1].block[0].block[0].line, 4);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, line, word) in [
            ("load\nstrat x Coll", 2, "strat"),
            ("start x Colly", 1, "Colly"),
            ("start x Coll count=many", 1, "count"),
            ("start x Coll colour=blue", 1, "colour"),
            ("start x Coll @300=1", 1, "300"),
            ("repeat 3 {\nload", 1, "no }"),
            ("}", 1, "without"),
            ("repeat 3", 1, "needs a {"),
            ("sleep 3", 1, "ms"),
            ("state x Nonsense", 1, "Nonsense"),
            ("stop", 1, "stop HANDLE"),
            ("kill 300", 1, "300"),
        ] {
            let error = parse(text).unwrap_err();
            let begins = error.starts_with(&format!("line {line}: "));
            assert!(begins && error.contains(word), "{text}: {error}");
        }
    }
}
