//! A lane with its siblings, while something is drawn on it.

use super::Canvas;
use crate::tables::assembly::Operation;
use crate::tables::place::place;
use crate::tables::room;
use crate::timeline::figure::{Figure, Shape};
use crate::timeline::lanes::{Item, LaneKey};

/// A lane with its siblings, to draw many things on.
#[derive(Debug)]
pub struct Row<'c> {
    canvas: &'c mut Canvas,
    key: LaneKey,
    /// Whether the level has it.
    is_drawn: bool,
    /// By sibling: where it is in [`Canvas::lanes`].
    siblings: Vec<Option<usize>>,
}

impl Canvas {
    /// A lane to draw on.
    pub fn row(&mut self, key: LaneKey) -> Row<'_> {
        Row {
            is_drawn: self.level.draws(key.kind()),
            canvas: self,
            key,
            siblings: Vec::new(),
        }
    }
}

impl Row<'_> {
    /// What else is noted of what is drawn.
    pub fn canvas(&mut self) -> &mut Canvas {
        self.canvas
    }

    fn items(&mut self, sibling: usize) -> Option<&mut Vec<Item>> {
        let number = match self.siblings.get(sibling) {
            Some(&Some(number)) => number,
            _ => self.find(sibling),
        };
        let lane = self.canvas.lanes.get_mut(number)?;
        Some(&mut lane.items)
    }

    #[cold]
    fn find(&mut self, sibling: usize) -> usize {
        let number = self.canvas.number(self.key, place(sibling));
        if self.siblings.len() <= sibling {
            self.siblings.resize(sibling + 1, None);
        }
        if let Some(known) = self.siblings.get_mut(sibling) {
            *known = Some(number);
        }
        number
    }

    /// Makes room for so many more on the lane itself: most of what is put on it goes there.
    pub fn reserve(&mut self, count: usize) {
        if self.is_drawn
            && let Some(items) = self.items(0)
        {
            items.reserve(count);
        }
    }

    /// See [`Canvas::told`].
    pub fn told(&mut self, figure: Figure, operation: &Operation) {
        if self.is_drawn {
            self.canvas.told(figure, operation);
        }
    }

    /// Draws on the lane or one of its siblings.
    pub fn draw(&mut self, sibling: usize, item: Item) {
        if !self.is_drawn {
            return;
        }
        if sibling > 0 && item.figure.is_whole() {
            self.canvas.counts.overflowed += 1;
        }
        self.canvas.needed.note(item.figure);
        if let Some(items) = self.items(sibling) {
            room::push(items, item);
        }
    }

    /// Draws the parts of one operation that follow each other, each from its beginning to that of the next.
    pub fn chain(&mut self, sibling: usize, operation: u32, parts: &[(Shape, u64)], end: u64) {
        if !self.is_drawn {
            return;
        }
        if sibling > 0 {
            self.canvas.counts.overflowed += 1;
        }
        for (at, &(shape, begin)) in parts.iter().enumerate() {
            let next = parts.get(at + 1);
            let until = next.map_or(end, |&(_, begin)| begin);
            let figure = Figure {
                operation,
                shape,
                is_last: next.is_none(),
            };
            self.canvas.needed.note(figure);
            let (start, end) = (begin.min(end), until.min(end));
            if let Some(items) = self.items(sibling) {
                room::push(items, Item { start, end, figure });
            }
        }
    }
}
