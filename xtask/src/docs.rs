//! Pages that contain a part written by a command, between two comments.

use anyhow::{Context as _, Result};

use crate::{cache, cargo};

/// Replaces the text between two comments of a page. The page's path is relative to the repository's root.
pub(crate) fn replace_between(page: &str, begin: &str, end: &str, text: &str) -> Result<()> {
    let path = cargo::root().join(page);
    let old = std::fs::read_to_string(&path).with_context(|| format!("read {page}"))?;
    let parts = old.split_once(begin).and_then(|(head, rest)| Some((head, rest.split_once(end)?.1)));
    let (head, tail) = parts.with_context(|| format!("{page} lacks the marks `{}` and `{end}`", begin.trim()))?;
    cache::write(&path, format!("{head}{begin}\n{text}\n{end}{tail}"))?;
    println!("   wrote {page}");
    Ok(())
}
