// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places for a drawing of any graph of elements, as [`svg`](crate::svg) has them, for programs that draw by themselves.

use crate::layout::{Drawing, layout};
use crate::svg::{STEP, width};

/// A graph.
#[derive(Clone, Copy, Debug)]
pub struct Graph<'a> {
    /// Names and classes of elements.
    pub names: &'a [(&'a str, &'a str)],
    /// Connections, by the elements' places in `names`.
    pub edges: &'a [(usize, usize)],
}

/// Where everything goes, in pixels from the upper left.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    /// The middle of each box, and its width.
    pub boxes: Vec<(f64, f64, f64)>,
    /// The points of each edge, from box to box.
    pub routes: Vec<Vec<(f64, f64)>>,
    /// Of the whole.
    pub width: f64,
    /// Of the whole.
    pub height: f64,
}

/// Finds the places.
pub fn places(graph: &Graph<'_>) -> Places {
    let widths: Vec<f64> = graph.names.iter().map(|(name, class)| width(name, class)).collect();
    let drawing = Drawing { widths, edges: graph.edges.to_vec() };
    let found = layout(&drawing);
    let y = |layer: usize| (layer as f64 + 0.5) * STEP;
    let boxes = found.boxes.iter().zip(&drawing.widths).map(|((x, layer), width)| (*x, y(*layer), *width));
    let route = |points: &Vec<(f64, usize)>| points.iter().map(|(x, layer)| (*x, y(*layer))).collect();
    Places {
        boxes: boxes.collect(),
        routes: found.routes.iter().map(route).collect(),
        width: found.width,
        height: found.layers as f64 * STEP,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_and_edges_meet() {
        let names = [("src", "InfiniteSource"), ("q", "Queue"), ("sink", "Discard")];
        let found = places(&Graph { names: &names, edges: &[(0, 1), (1, 2), (0, 2)] });
        assert_eq!(found.routes[2].len(), 3, "the long edge has a point of its own");
        for (edge, route) in [(0, 1), (1, 2), (0, 2)].iter().zip(&found.routes) {
            let middle = |i: usize| (found.boxes[i].0, found.boxes[i].1);
            assert_eq!((route.first(), route.last()), (Some(&middle(edge.0)), Some(&middle(edge.1))));
        }
        assert_eq!(found.height, 3.0 * STEP);
        assert!(found.boxes.iter().all(|(x, _, width)| *x >= width / 2.0 - 0.01 && *x <= found.width));
        assert_eq!(places(&Graph { names: &[], edges: &[] }).boxes, []);
    }
}
