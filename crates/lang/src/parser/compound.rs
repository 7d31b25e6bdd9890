// SPDX-License-Identifier: MIT OR Apache-2.0
//! What opens a level of nesting: compounds `{ ... || ... }` with their parameters, and groups `( ... )`.

use super::{MAX_NESTING, Parser};
use crate::ast::{BodyDef, CompoundDef, Formal, Stmt};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Token, TokenKind};
use crate::source::Span;

impl Parser<'_> {
    /// Enters a compound or group, or complains and skips it if the nesting is too deep.
    fn enter(&mut self, open: Token, what: &str) -> bool {
        if self.depth < MAX_NESTING {
            self.depth += 1;
            return true;
        }
        self.error(
            Diagnostic::error("E0105", format!("maximum {what} nesting depth exceeded"))
                .at(open.span)
                .label(format!("more than {MAX_NESTING} levels deep"))
                .help("give the inner parts names with `elementclass`"),
        );
        self.skip_balanced();
        false
    }

    /// Skips to behind the bracket that closes the one just taken.
    pub(super) fn skip_balanced(&mut self) {
        let mut depth = 1usize;
        while depth > 0 {
            match self.next().kind {
                TokenKind::Char('{' | '(') => depth += 1,
                TokenKind::Char('}' | ')') => depth -= 1,
                TokenKind::End => return,
                _ => {}
            }
        }
    }

    pub(super) fn group(&mut self) -> Vec<Stmt> {
        let open = self.next();
        let mut statements = Vec::new();
        if !self.enter(open, "element group") {
            return statements;
        }
        self.statements(&mut statements);
        self.depth -= 1;
        self.expect(TokenKind::Char(')'), Some(open.span));
        statements
    }

    pub(super) fn compound(&mut self) -> CompoundDef {
        let open = self.next();
        let mut compound = CompoundDef { bodies: Vec::new(), extends: None, span: open.span };
        if !self.enter(open, "compound element") {
            let body =
                BodyDef { formals: Vec::new(), statements: Vec::new(), span: open.span, whole: open.span };
            compound.bodies.push(body);
            return compound;
        }
        loop {
            if let Some(dots) = self.accept(TokenKind::Ellipsis) {
                compound.extends = Some(dots.span);
                if compound.bodies.is_empty() || self.peek().kind != TokenKind::Char('}') {
                    self.error(
                        Diagnostic::error("E0407", "'...' should occur last, after one or more compounds")
                            .at(dots.span)
                            .help("write `{ ... new overloads ... || ... }`"),
                    );
                }
            }
            if compound.extends.is_none() || self.peek().kind != TokenKind::Char('}') {
                compound.bodies.push(self.body(open));
            }
            if self.accept(TokenKind::DoubleBar).is_none() {
                break;
            }
        }
        self.depth -= 1;
        self.expect(TokenKind::Char('}'), Some(open.span));
        compound
    }

    fn body(&mut self, open: Token) -> BodyDef {
        let start = self.peek().span;
        let formals = self.formals();
        let mut statements = Vec::new();
        loop {
            self.statements(&mut statements);
            match self.peek().kind {
                TokenKind::Char(')') => {
                    let token = self.next();
                    self.unexpected(token, "no parenthesis is open here");
                }
                _ => break,
            }
        }
        let span = if start.end > start.start { open.span.to(start) } else { open.span };
        let end = self.peek().span.start;
        let whole = Span { start: start.start.min(end), end, ..start };
        BodyDef { formals, statements, span: Span { start: span.start, end: span.start + 1, ..span }, whole }
    }

    /// `$a, KEY $b |`, if it stands here.
    fn formals(&mut self) -> Vec<Formal> {
        let mut formals = Vec::new();
        loop {
            let token = self.peek();
            let keyword = (token.kind == TokenKind::Ident && self.peek_nth(1).kind == TokenKind::Variable)
                .then(|| {
                    let token = self.next();
                    self.ident(token)
                });
            match self.peek().kind {
                TokenKind::Variable => {
                    let token = self.next();
                    formals.push(Formal { keyword, name: self.ident(token) });
                }
                TokenKind::Char('|') => {
                    self.next();
                    return formals;
                }
                _ => {
                    if !formals.is_empty() {
                        let label = format!("found {}", self.describe(token));
                        self.error(
                            Diagnostic::error("E0106", "expected variable").at(token.span).label(label),
                        );
                    }
                    return formals;
                }
            }
            if self.accept(TokenKind::Char('|')).is_some() {
                return formals;
            }
            if self.accept(TokenKind::Char(',')).is_none() {
                let token = self.peek();
                let label = format!("found {}", self.describe(token));
                self.error(Diagnostic::error("E0106", "expected ',' or '|'").at(token.span).label(label));
                if token.kind != TokenKind::Variable {
                    return formals;
                }
            }
        }
    }

    /// Parameters in parentheses behind a class name, as other languages have them: an error, but read all the same.
    pub(super) fn misplaced_formals(&mut self, class: &str) -> Vec<Formal> {
        let open = self.next();
        let mut formals = Vec::new();
        loop {
            let keyword = self.accept(TokenKind::Ident).map(|token| self.ident(token));
            let Some(token) = self.accept(TokenKind::Variable) else { break };
            formals.push(Formal { keyword, name: self.ident(token) });
            self.accept(TokenKind::Char(','));
        }
        let next = self.peek();
        let text = self.lexer.span(open.span.end as usize, next.span.start.max(open.span.end) as usize);
        let help = format!("write `elementclass {class} {{ {} | ... }}`", self.lexer.str(text).trim());
        let message = format!("parameters of '{class}' stand inside its braces");
        self.error(Diagnostic::error("E0101", message).at(open.span.to(text)).help(help));
        self.expect(TokenKind::Char(')'), Some(open.span));
        formals
    }
}
