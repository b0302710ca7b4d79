package recipient

// Brazil added a ninth digit, a leading 9, to its mobile numbers between 2012
// and 2016 (Anatel, Resolução 553/2010). WhatsApp knows older accounts without
// it, so one person has two spellings.
const (
	brazil = "55"

	areaEnd      = len(brazil) + 2
	withNinth    = areaEnd + 9
	withoutNinth = areaEnd + 8

	nationalWithNinth    = withNinth - len(brazil)
	nationalWithoutNinth = withoutNinth - len(brazil)
)

// Canonical is the one spelling of a number in digits: a Brazilian mobile always
// has its ninth digit, every other number is unchanged. It is idempotent, and
// equal for all Variants of a number. It does not check the number: Parse does.
func Canonical(digits string) string {
	if oldMobile(digits) {
		return digits[:areaEnd] + "9" + digits[areaEnd:]
	}
	return digits
}

// Variants are the spellings under which WhatsApp may know the number, the given
// one first: with and without the ninth digit for a Brazilian mobile that existed
// before it, else only the number itself.
//
// A mobile whose digit after the 9 is 2 to 5 has one spelling: it was issued with
// nine digits, and without the 9 it would be the landline of somebody else.
func Variants(digits string) []string {
	switch {
	case oldMobile(digits):
		return []string{digits, Canonical(digits)}
	case len(digits) == withNinth && digits[areaEnd] == '9' && oldMobile(digits[:areaEnd]+digits[areaEnd+1:]):
		return []string{digits, digits[:areaEnd] + digits[areaEnd+1:]}
	}
	return []string{digits}
}

// oldMobile reports whether digits is a Brazilian mobile without its ninth digit:
// those began with 6 to 9, landlines begin with 2 to 5.
func oldMobile(digits string) bool {
	return len(digits) == withoutNinth && onlyDigits(digits) &&
		digits[:len(brazil)] == brazil && areaCode(digits[len(brazil):areaEnd]) &&
		digits[areaEnd] >= '6'
}

// nationalBrazilian reports whether digits is a complete Brazilian number without
// the country code: area code, then a mobile of nine digits or a line of eight.
func nationalBrazilian(digits string) bool {
	switch len(digits) {
	case nationalWithNinth:
		return areaCode(digits[:2]) && digits[2] == '9'
	case nationalWithoutNinth:
		return areaCode(digits[:2]) && digits[2] >= '2'
	}
	return false
}

// areaCode reports whether s is an area code in use (Anatel, Plano Geral de
// Códigos Nacionais).
func areaCode(s string) bool {
	first, second := s[0], s[1]
	switch first {
	case '1', '4', '6', '8', '9':
		return second >= '1'
	case '2':
		return second == '1' || second == '2' || second == '4' || second == '7' || second == '8'
	case '3':
		return second >= '1' && second <= '8' && second != '6'
	case '5':
		return second == '1' || second >= '3' && second <= '5'
	case '7':
		return second == '1' || second >= '3' && second <= '5' || second == '7' || second == '9'
	}
	return false
}
