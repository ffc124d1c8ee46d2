//! Inputs of several files: pieces behind a mark each, so that one can be cut, copied or moved without breaking others.

/// What every piece begins with; a byte for its kind follows.
const MARK: &[u8] = b"\xffpc";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) kind: u8,
    pub(crate) bytes: &'a [u8],
}

pub(crate) fn split(input: &[u8]) -> (&[u8], Vec<Piece<'_>>) {
    let starts: Vec<usize> = (0..input.len()).filter(|at| input[*at..].starts_with(MARK)).collect();
    let ends = starts.iter().skip(1).copied().chain([input.len()]);
    let pieces = starts.iter().zip(ends).filter_map(|(start, end)| {
        let (kind, bytes) = input[start + MARK.len()..end].split_first()?;
        Some(Piece { kind: *kind, bytes })
    });
    let head = starts.first().map_or(input, |first| &input[..*first]);
    (head, pieces.collect())
}

pub(crate) fn push(input: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    input.extend_from_slice(MARK);
    input.push(kind);
    for part in parts {
        input.extend_from_slice(part);
    }
}
