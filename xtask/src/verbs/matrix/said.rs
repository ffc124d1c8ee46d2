//! What the programs of a run said, put into one line.

use std::path::Path;
use std::process::Output;

/// The numbers that differ, or the last words.
pub(super) fn reason(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong: Vec<String> = said
        .lines()
        .filter(|line| line.contains("WRONG"))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    if wrong.is_empty() {
        last(output)
    } else {
        wrong.join("; ")
    }
}

/// The first finding of `check --json`, or its last words.
pub(super) fn fault(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines()
        .skip_while(|line| !line.contains("\"fault\""))
        .find_map(|line| line.trim().strip_prefix("\"message\": "))
        .map_or_else(
            || last(output),
            |message| message.trim_matches('"').to_owned(),
        )
}

/// The rules that `check --json` remarked on: the keys of its list of rules.
pub(super) fn rules(json: &str) -> Vec<String> {
    json.lines()
        .filter_map(|line| {
            let name = line.trim().strip_suffix("\": {")?.strip_prefix('"')?;
            let number = name.strip_prefix(|c: char| c.is_ascii_uppercase())?;
            let is_rule = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
            is_rule.then(|| name.to_owned())
        })
        .collect()
}

/// The last line on stderr.
pub(super) fn last(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    said.lines().last().unwrap_or("it said nothing").to_owned()
}

/// The last line of a file.
pub(super) fn last_line(file: &Path) -> String {
    let said = std::fs::read(file).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    said.lines().last().unwrap_or("it said nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_by_their_numbers() {
        let json = "{\n  \"remarks\": 3,\n  \"rules\": {\n    \"A08\": {\n      \"count\": 1\n    },\n    \"T06\": {\n";
        assert_eq!(rules(json), ["A08", "T06"]);
        assert!(rules("{\n  \"rules\": {}\n}").is_empty());
    }
}
