// Package token writes and reads the two signed things that a visitor carries.
//
// The entry token is a pass: a JWT that lets its holder through the gate of one
// room until its end. [Authority] signs and verifies it. The ticket is a place in
// line: a short binary record that lets its holder keep the place when Redis
// forgets it. [Tickets] seals and opens it. Neither is accepted as the other: they
// differ in form and in key.
//
// It also reads a third one, which the shop signs: [Identity] tells by it who a visitor
// is, so that one person has one place whatever they carry.
//
// # What an entry token says
//
//	header alg         HS256, EdDSA or ES256; fixed by the key, never chosen by the token
//	header kid         names the key; a hash of it that tells nothing about it
//	header typ         queuegate-entry+jwt
//	claim  iss         who gives passes, Options.Issuer
//	claim  ins         the installation, Options.Installation; left out where that is empty
//	claim  aud         the room, one string
//	claim  sub         the visitor, 26 characters of A-Z and 2-7
//	claim  jti         the admission; every list of used or ended passes is kept by it
//	claim  iat         when it was signed, Redis TIME, whole seconds rounded down
//	claim  exp         when it ends for verifiers without room time, Redis TIME, whole seconds rounded down
//	claim  stage       ready (admitted, not used yet) or active
//	claim  place       the place the admission was given for
//	claim  generation  of the line, raised by an operator's reset
//	claim  epoch       of the line, raised when Redis lost history
//	claim  end         when the lease ends, room time, milliseconds; gates judge by it
//
// Every claim is required, ins where a verifier expects one. Unknown claims are ignored, so that a gate of the
// version before accepts what a newer one signed.
//
// # What a verifier must check
//
// A gate calls [Authority.Verify], judges End by room time without leeway, and asks
// its list of ended admissions for jti: a signature proves that a pass was given, not
// that it was not used up. Any other verifier must
//
//  1. refuse more than 4096 bytes before it parses anything,
//  2. take the algorithm from the key it holds under kid, never from the token, and
//     refuse an unknown kid without looking for it elsewhere,
//  3. refuse claims that stand there twice, and check typ, iss, ins and that aud is exactly its room, one string and not a list,
//  4. require exp and refuse a token whose exp is now or earlier,
//  5. use no claim of a token that failed any of these.
//
// [Verifier.VerifyAt] does all of it in Go, [Middleware] for a whole handler;
// testdata/vectors.json holds good and bad tokens to try another implementation
// against. Such a verifier knows nothing of a
// pass that ended early; exp lies a little before the end of the lease for its sake.
//
// A token with an ES256 signature has a second valid signature that anybody can
// compute. It says the same and names the same admission, which is why lists are
// kept by jti and never by the text of a token.
//
// # Rotation
//
// Gates restart one after another, so each must accept the new key before any of
// them signs with it:
//
//  1. add the new secret to Previous of all gates (its public half to PreviousPublic),
//     and wait until those who read the key set have read it again,
//  2. make it the signing key and put the old one into Previous, on all gates,
//  3. when the longest session is over, drop the old one.
//
// Nobody inside notices. With one step only, a gate not yet restarted would send
// back into the line whoever was just admitted by a gate that was.
//
// Tickets are not rotated: the secret of [NewTickets] and [DeriveIdentitySecret] must
// stay the same for as long as anybody waits. It should therefore be set by itself and
// not be a token secret that changes. The same goes for the name of the installation,
// which all passes and tickets are bound to.
package token
