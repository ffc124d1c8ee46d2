//! Finds lines of Markdown and of comments that are too wide.
//!
//! Rows of tables, fenced blocks, definitions of links, images and lines without a space cannot be wrapped, so their
//! width is not limited.

/// The numbers and widths of Markdown lines wider than `most` columns.
pub(super) fn markdown<'a>(lines: impl Iterator<Item = (usize, &'a str, usize)>, most: usize) -> Vec<(usize, usize)> {
    let mut fenced = false;
    let mut wide = Vec::new();
    for (number, line, columns) in lines {
        let line = line.trim();
        if line.starts_with("```") {
            fenced = !fenced;
        }
        if columns > most && !fenced && !is_unbreakable(line) {
            wide.push((number, columns));
        }
    }
    wide
}

fn is_unbreakable(line: &str) -> bool {
    let definition = line.starts_with('[') && line.contains("]: ");
    let image = line.starts_with("![") || line.starts_with("[![") || line.starts_with("<img");
    let one_word = !line.trim_start_matches(['*', '-', ' ']).contains(' ');
    line.starts_with('|') || definition || image || one_word
}

pub(super) fn page(text: &str, most: usize) -> Vec<(usize, usize)> {
    markdown(text.lines().zip(1..).map(|(line, number)| (number, line, line.chars().count())), most)
}

pub(super) fn comments(file: &str, text: &str, most: usize) -> Vec<(usize, usize)> {
    let Some(mark) = mark(file) else {
        return Vec::new();
    };
    let lines = text.lines().zip(1..).filter_map(|(line, number)| {
        let comment = line.trim_start().strip_prefix(mark)?;
        Some((number, comment.trim_start_matches(['/', '!']), line.chars().count()))
    });
    markdown(lines, most)
}

fn mark(file: &str) -> Option<&'static str> {
    let name = file.rsplit('/').next()?;
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "rs" | "c" | "h" => Some("//"),
        "py" | "sh" | "toml" | "cmake" => Some("#"),
        _ if name == "CMakeLists.txt" || file == ".ci/run" => Some("#"),
        _ => None,
    }
}
