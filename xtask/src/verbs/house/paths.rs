//! Paths that code uses, including those in the tokens of macros.

use proc_macro2::{TokenStream, TokenTree};

/// A path in code or in a `use`.
pub(super) struct Used {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
    pub(super) how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Code,
    /// Re-exported by `pub use`.
    Reexport,
    Macro,
}

/// Collects words joined by `::`.
pub(super) fn in_tokens(tokens: TokenStream, found: &mut Vec<Used>) {
    let mut open: Option<Used> = None;
    let mut colons = 0;
    let mut dots = 0;
    for token in tokens {
        // A word after a single dot is a field or a method.
        let is_member = std::mem::take(&mut dots) == 1;
        match token {
            TokenTree::Ident(_) if is_member => {}
            TokenTree::Ident(word) => {
                let line = word.span().start().line;
                let before = if colons == 2 { open.take() } else { None };
                found.extend(open.take());
                let used = open.insert(before.unwrap_or_else(|| Used { path: Vec::new(), line, how: How::Code }));
                used.path.push(word.to_string());
                colons = 0;
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
            other => {
                if let (TokenTree::Punct(mark), Some(used)) = (&other, &mut open)
                    && mark.as_char() == '!'
                {
                    used.how = How::Macro;
                }
                if matches!(&other, TokenTree::Punct(mark) if mark.as_char() == '.') {
                    dots = if is_member { 2 } else { 1 };
                }
                found.extend(open.take());
                if let TokenTree::Group(group) = other {
                    in_tokens(group.stream(), found);
                }
                colons = 0;
            }
        }
    }
    found.extend(open);
}
