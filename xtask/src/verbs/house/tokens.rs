//! Paths in the tokens of macros: words that are joined by `::`.

use proc_macro2::{TokenStream, TokenTree};

use super::source::{How, Used};

pub(super) fn paths(tokens: TokenStream, found: &mut Vec<Used>) {
    let mut open: Option<Used> = None;
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(word) => {
                let line = word.span().start().line;
                let before = if colons == 2 { open.take() } else { None };
                found.extend(open.take());
                let used =
                    open.insert(before.unwrap_or_else(|| Used::new(Vec::new(), line, How::Code)));
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
                found.extend(open.take());
                if let TokenTree::Group(group) = other {
                    paths(group.stream(), found);
                }
                colons = 0;
            }
        }
    }
    found.extend(open);
}
