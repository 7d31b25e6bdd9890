// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places for the boxes of a directed graph, in layers, after Sugiyama, Tagawa and Toda ("Methods for Visual Understanding of Hierarchical System
//! Structures", 1981):
//!
//! 1. Break cycles.
//! 2. Put each box below all that lead to it.
//! 3. Let long edges pass the layers between through points of their own.
//! 4. Order each layer by the middle of its neighbours.
//! 5. Pull the boxes together as far as they leave each other room.

/// A graph to be drawn: the widths of its boxes, and its edges.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drawing {
    pub(crate) widths: Vec<f64>,
    pub(crate) edges: Vec<(usize, usize)>,
}

/// Where everything goes. Layers are counted from the top.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// Middle and layer of each box.
    pub(crate) boxes: Vec<(f64, usize)>,
    /// The points of each edge, box to box, in the order of its direction.
    pub(crate) routes: Vec<Vec<(f64, usize)>>,
    pub(crate) width: f64,
    pub(crate) layers: usize,
}

/// Free space between boxes of a layer.
const GAP: f64 = 18.0;
/// What an edge that passes a layer takes of it.
const LANE: f64 = 10.0;
/// Sweeps over the layers, for their order and for their places.
const SWEEPS: usize = 24;

struct Layers {
    /// The layer of each box, and of each point where an edge passes a layer.
    layer: Vec<usize>,
    width: Vec<f64>,
    /// Neighbours in the layers above and below.
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    /// Members by layer, in order.
    order: Vec<Vec<usize>>,
    x: Vec<f64>,
}

pub(crate) fn layout(drawing: &Drawing) -> Layout {
    let count = drawing.widths.len();
    let down = acyclic(count, &drawing.edges);
    let layer = longest_paths(count, &down);
    let mut layers = Layers {
        layer,
        width: drawing.widths.clone(),
        above: vec![Vec::new(); count],
        below: vec![Vec::new(); count],
        order: Vec::new(),
        x: Vec::new(),
    };
    let chains: Vec<Vec<usize>> = down.iter().map(|(from, to)| layers.chain(*from, *to)).collect();
    layers.first_order();
    for sweep in 0..SWEEPS {
        layers.sort_by_neighbours(sweep % 2 == 0);
    }
    layers.place();
    let point = |v: &usize| (layers.x[*v], layers.layer[*v]);
    let routes = chains.iter().zip(drawing.edges.iter().zip(&down)).map(|(chain, (edge, down))| {
        let mut route: Vec<_> = chain.iter().map(point).collect();
        if edge != down {
            route.reverse();
        }
        route
    });
    let routes = routes.collect();
    let right = (0..layers.x.len()).map(|v| layers.x[v] + layers.width[v] / 2.0).fold(0.0, f64::max);
    Layout {
        boxes: (0..count).map(|v| point(&v)).collect(),
        routes,
        width: right,
        layers: layers.order.len(),
    }
}

/// The edges, those turned round that lead back to a box from which they come.
fn acyclic(count: usize, edges: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut leaving = vec![Vec::new(); count];
    let mut entered = vec![false; count];
    for (i, (from, to)) in edges.iter().enumerate() {
        leaving[*from].push((i, *to));
        entered[*to] |= from != to;
    }
    let mut down = edges.to_vec();
    // Unseen, on the path to here, done.
    let mut state = vec![0u8; count];
    let starts = (0..count).filter(|v| !entered[*v]).chain((0..count).filter(|v| entered[*v]));
    for start in starts {
        let mut path = vec![(start, 0)];
        while let Some((v, next)) = path.pop() {
            if next == 0 {
                if state[v] != 0 {
                    continue;
                }
                state[v] = 1;
            }
            match leaving[v].get(next) {
                None => state[v] = 2,
                Some((edge, to)) => {
                    path.push((v, next + 1));
                    match state[*to] {
                        0 => path.push((*to, 0)),
                        1 => down[*edge] = (*to, v),
                        _ => {}
                    }
                }
            }
        }
    }
    down
}

/// The layer of each box: below everything that leads to it.
fn longest_paths(count: usize, down: &[(usize, usize)]) -> Vec<usize> {
    let mut layer = vec![0usize; count];
    // No path is longer than there are boxes.
    for _ in 0..count {
        let mut changed = false;
        for (from, to) in down.iter().filter(|(from, to)| from != to) {
            if layer[*to] <= layer[*from] {
                layer[*to] = layer[*from] + 1;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    // What nothing leads to stands right above what it leads to.
    for v in 0..count {
        if down.iter().all(|(_, to)| *to != v)
            && let Some(nearest) = down.iter().filter(|(from, _)| *from == v).map(|(_, to)| layer[*to]).min()
        {
            layer[v] = nearest.saturating_sub(1);
        }
    }
    layer
}

impl Layers {
    /// Makes the points by which an edge passes the layers between its ends; returns its whole way.
    fn chain(&mut self, from: usize, to: usize) -> Vec<usize> {
        let mut way = vec![from];
        for layer in self.layer[from] + 1..self.layer[to] {
            way.push(self.layer.len());
            self.layer.push(layer);
            self.width.push(LANE);
            self.above.push(Vec::new());
            self.below.push(Vec::new());
        }
        way.push(to);
        for pair in way.windows(2).filter(|pair| pair[0] != pair[1]) {
            self.below[pair[0]].push(pair[1]);
            self.above[pair[1]].push(pair[0]);
        }
        way
    }

    /// Orders the layers as a walk from the top meets their members.
    fn first_order(&mut self) {
        let count = self.layer.len();
        let mut seen = vec![false; count];
        self.order = vec![Vec::new(); self.layer.iter().max().map_or(0, |l| l + 1)];
        let mut tops: Vec<usize> = (0..count).collect();
        tops.sort_by_key(|v| (!self.above[*v].is_empty(), *v));
        for top in tops {
            let mut todo = vec![top];
            while let Some(v) = todo.pop() {
                if !std::mem::replace(&mut seen[v], true) {
                    self.order[self.layer[v]].push(v);
                    todo.extend(self.below[v].iter().rev());
                }
            }
        }
    }

    /// Sorts each layer by the mean place of its members' neighbours above, or below.
    fn sort_by_neighbours(&mut self, from_above: bool) {
        let mut place = vec![0.0; self.layer.len()];
        let count = self.order.len();
        let sweep: Vec<usize> = if from_above { (0..count).collect() } else { (0..count).rev().collect() };
        for at in 0..count {
            for (i, v) in self.order[at].iter().enumerate() {
                place[*v] = i as f64;
            }
        }
        for at in sweep {
            let neighbours = if from_above { &self.above } else { &self.below };
            let mean = |v: usize| match neighbours[v].len() {
                0 => place[v],
                n => neighbours[v].iter().map(|n| place[*n]).sum::<f64>() / n as f64,
            };
            let mut keys: Vec<(f64, usize)> = self.order[at].iter().map(|v| (mean(*v), *v)).collect();
            keys.sort_by(|a, b| a.0.total_cmp(&b.0));
            self.order[at] = keys.into_iter().map(|(_, v)| v).collect();
            for (i, v) in self.order[at].iter().enumerate() {
                place[*v] = i as f64;
            }
        }
    }

    /// Finds the middles: side by side at first, then drawn towards their neighbours.
    fn place(&mut self) {
        self.x = vec![0.0; self.layer.len()];
        for at in 0..self.order.len() {
            let mut right = 0.0;
            for v in &self.order[at] {
                self.x[*v] = right + self.width[*v] / 2.0;
                right += self.width[*v] + GAP;
            }
        }
        for sweep in 0..SWEEPS {
            let count = self.order.len();
            let layers: Vec<usize> =
                if sweep % 2 == 0 { (0..count).collect() } else { (0..count).rev().collect() };
            for at in layers {
                self.draw_together(at);
            }
        }
        let left = (0..self.x.len()).map(|v| self.x[v] - self.width[v] / 2.0).fold(f64::MAX, f64::min);
        self.x.iter_mut().for_each(|x| *x -= left);
    }

    /// Moves a layer's members towards the means of their neighbours without changing their order: members that
    /// would overlap form blocks, and each block goes where its members want to be on average.
    fn draw_together(&mut self, at: usize) {
        // (wish of the first member, members, total width before each)
        let mut blocks: Vec<(f64, Vec<usize>, f64)> = Vec::new();
        for v in &self.order[at] {
            let around = self.above[*v].iter().chain(&self.below[*v]);
            let (sum, n) = around.fold((0.0, 0), |(sum, n), other| (sum + self.x[*other], n + 1));
            let wish = if n == 0 { self.x[*v] } else { sum / f64::from(n) };
            let mut block = (wish - self.width[*v] / 2.0, vec![*v], self.width[*v]);
            while let Some((left, mut members, width)) = blocks.pop() {
                if left + width + GAP <= block.0 {
                    blocks.push((left, members, width));
                    break;
                }
                let (a, b) = (members.len() as f64, block.1.len() as f64);
                let joined = (left * a + (block.0 - width - GAP) * b) / (a + b);
                members.append(&mut block.1);
                block = (joined, members, width + GAP + block.2);
            }
            blocks.push(block);
        }
        for (left, members, _) in blocks {
            let mut left = left;
            for v in members {
                self.x[v] = left + self.width[v] / 2.0;
                left += self.width[v] + GAP;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn overlaps(drawing: &Drawing, layout: &Layout) -> bool {
        let span = |v: usize| {
            let (x, layer) = layout.boxes[v];
            (layer, x - drawing.widths[v] / 2.0, x + drawing.widths[v] / 2.0)
        };
        let count = drawing.widths.len();
        (0..count).any(|a| {
            (0..a).any(|b| {
                let ((la, a0, a1), (lb, b0, b1)) = (span(a), span(b));
                la == lb && a0 < b1 - 0.01 && b0 < a1 - 0.01
            })
        })
    }

    #[test]
    fn a_diamond_lies_even() {
        let drawing = Drawing { widths: vec![50.0; 4], edges: vec![(0, 1), (0, 2), (1, 3), (2, 3), (3, 0)] };
        let layout = layout(&drawing);
        let layers: Vec<usize> = layout.boxes.iter().map(|b| b.1).collect();
        assert_eq!((layers, layout.layers), (vec![0, 1, 1, 2], 3));
        assert!((layout.boxes[0].0 - layout.boxes[3].0).abs() < 20.0, "{layout:?}");
        // The edge back leads upwards, past the layer between.
        let back: Vec<usize> = layout.routes[4].iter().map(|p| p.1).collect();
        assert_eq!(back, [2, 1, 0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn boxes_never_overlap_and_edges_meet_their_boxes(
            edges in prop::collection::vec((0usize..12, 0usize..12), 0..30)
        ) {
            let widths = (0..12).map(|v| 30.0 + 7.0 * f64::from(v)).collect();
            let drawing = Drawing { widths, edges };
            let layout = layout(&drawing);
            prop_assert!(!overlaps(&drawing, &layout));
            for ((from, to), route) in drawing.edges.iter().zip(&layout.routes) {
                prop_assert_eq!(route.first(), Some(&layout.boxes[*from]));
                prop_assert_eq!(route.last(), Some(&layout.boxes[*to]));
            }
        }
    }
}
