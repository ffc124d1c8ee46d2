//! Paths in commands that a message shows.

use std::path::Path;

/// A path as a word of a shell's command, so that the command can be copied.
pub fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |it: char| it.is_alphanumeric() || "/._-+=:,@%".contains(it);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else if text.contains('\n') {
        // A message shows a line break as `\n`, which bash reads as one only between `$'` and `'`.
        format!("$'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_path_again() {
        for path in ["/tmp/trace-7", "sp ace/t", "it's", "$HOME;", "", "träce"] {
            let command = format!("printf %s {}", shell_word(Path::new(path)));
            let shell = std::process::Command::new("sh").args(["-c", &command]).output().expect("sh runs");
            assert_eq!(String::from_utf8_lossy(&shell.stdout), path);
        }
    }
}
