//! Strongly connected components: those of more than one vertex are deadlocks. Tarjan's algorithm, without recursion:
//! ten thousand ranks can wait one behind the other.

use std::collections::BTreeMap;

use crate::graph::{Vertex, Why};

/// The components of more than one vertex, by the edges that `counts` wants.
pub(crate) fn components(
    edges: &BTreeMap<Vertex, Vec<(Vertex, Why)>>,
    counts: impl Fn(Vertex, Vertex, Why) -> bool,
) -> Vec<Vec<Vertex>> {
    let vertices: Vec<Vertex> = edges.keys().copied().collect();
    let numbers: BTreeMap<Vertex, usize> = vertices.iter().copied().zip(0..).collect();
    let next: Vec<Vec<usize>> = edges
        .iter()
        .map(|(from, to)| {
            let to = to.iter().filter(|(to, why)| counts(*from, *to, *why));
            to.filter_map(|(to, _)| numbers.get(to).copied()).collect()
        })
        .collect();
    let mut search = Search {
        next: &next,
        order: vec![None; vertices.len()],
        lowest: vec![0; vertices.len()],
        is_open: vec![false; vertices.len()],
        open: Vec::new(),
        seen: 0,
        found: Vec::new(),
    };
    for vertex in 0..vertices.len() {
        search.visit(vertex);
    }
    let named = |component: Vec<usize>| component.into_iter().filter_map(|at| vertices.get(at).copied()).collect();
    search.found.into_iter().map(named).collect()
}

struct Search<'a> {
    next: &'a [Vec<usize>],
    /// When each vertex was first seen.
    order: Vec<Option<usize>>,
    lowest: Vec<usize>,
    is_open: Vec<bool>,
    open: Vec<usize>,
    seen: usize,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    #[expect(clippy::indexing_slicing, reason = "all lists have an element for each vertex")]
    fn visit(&mut self, first: usize) {
        if self.order[first].is_some() {
            return;
        }
        let mut path = vec![(first, 0)];
        self.enter(first);
        while let Some((vertex, edge)) = path.pop() {
            if let Some(to) = self.next[vertex].get(edge).copied() {
                path.push((vertex, edge + 1));
                match self.order[to] {
                    None => {
                        self.enter(to);
                        path.push((to, 0));
                    }
                    Some(order) if self.is_open[to] => self.lowest[vertex] = self.lowest[vertex].min(order),
                    Some(_) => {}
                }
                continue;
            }
            if let Some((around, _)) = path.last() {
                self.lowest[*around] = self.lowest[*around].min(self.lowest[vertex]);
            }
            if Some(self.lowest[vertex]) == self.order[vertex] {
                self.close(vertex);
            }
        }
    }

    #[expect(clippy::indexing_slicing, reason = "all lists have an element for each vertex")]
    fn enter(&mut self, vertex: usize) {
        (self.order[vertex], self.lowest[vertex], self.is_open[vertex]) = (Some(self.seen), self.seen, true);
        self.seen += 1;
        self.open.push(vertex);
    }

    #[expect(clippy::indexing_slicing, reason = "all lists have an element for each vertex")]
    fn close(&mut self, vertex: usize) {
        let from = self.open.iter().rposition(|one| *one == vertex).unwrap_or(0);
        let component = self.open.split_off(from);
        component.iter().for_each(|one| self.is_open[*one] = false);
        if component.len() > 1 {
            self.found.push(component);
        }
    }
}
