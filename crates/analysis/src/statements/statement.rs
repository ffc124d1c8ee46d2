//! What the writer says of an archive, in the archive's properties: numbers, and lists with an entry a line.

use otf2::Archive;

/// A number; none where nothing is said, or no number.
#[must_use]
pub fn number(archive: &Archive, name: &str) -> Option<u64> {
    archive.property(name)?.trim().parse().ok()
}

/// The entries of a list; none where nothing is said.
#[must_use]
pub fn lines(archive: &Archive, name: &str) -> Vec<String> {
    let value = archive.property(name).unwrap_or_default();
    value.lines().map(str::to_owned).collect()
}

/// The numbers whose names begin so, by what follows, in lower case.
pub fn numbers(archive: &Archive, prefix: &str) -> impl Iterator<Item = (String, u64)> {
    archive.properties().iter().filter_map(move |(name, value)| {
        let name = name.strip_prefix(prefix)?.to_ascii_lowercase();
        Some((name, value.trim().parse().ok()?))
    })
}
