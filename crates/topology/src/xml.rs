//! The XML that NCCL writes: elements with attributes, without text.

use std::fmt;

use roxmltree::{Document, Node, ParsingOptions};

/// NCCL's own limit is 256 elements a rank; the ranks of a whole rack may be in one file.
const MOST_NODES: u32 = 40_000;
/// NCCL's own limit is 16. The parser compares each attribute with all others of its element.
const MOST_ATTRIBUTES: usize = 64;

/// Why a file is not a dump of NCCL's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub(crate) String);

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Parses a dump whose outermost element is `root`.
pub(crate) fn parse<'a>(text: &'a str, root: &str) -> Result<Document<'a>, Error> {
    refuse_costly(text)?;
    let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| Error(error.to_string()))?;
    let found = document.root_element().tag_name().name();
    match found == root {
        true => Ok(document),
        false => Err(Error(format!("the outermost element is <{found}>, not <{root}>"))),
    }
}

/// Refuses what NCCL never writes and what takes the parser more than linear time.
fn refuse_costly(text: &str) -> Result<(), Error> {
    if text.contains("xmlns") {
        return Err(Error("it declares an XML namespace".to_owned()));
    }
    // No tag has `<` inside, not even in a value.
    let mut tags = text.split('<').filter(|tag| !tag.starts_with('!'));
    match tags.any(|tag| tag.bytes().filter(|byte| *byte == b'=').count() > MOST_ATTRIBUTES) {
        true => Err(Error(format!("an element has more than {MOST_ATTRIBUTES} attributes"))),
        false => Ok(()),
    }
}

/// A number as NCCL writes it: decimal, or hexadecimal with `0x`.
pub(crate) fn number(node: Node<'_, '_>, name: &str) -> Option<u64> {
    let text = node.attribute(name)?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A number that must be there.
pub(crate) fn needed<T: TryFrom<u64>>(node: Node<'_, '_>, name: &str) -> Result<T, Error> {
    let value = number(node, name).and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| Error(format!("<{}> has no {name}", node.tag_name().name())))
}

pub(crate) fn is_set(node: Node<'_, '_>, name: &str) -> bool {
    number(node, name).is_some_and(|value| value != 0)
}
