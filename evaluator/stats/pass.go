package stats

import "fmt"

// PassAt is the unbiased estimate of pass@k from c successes in n trials:
// 1 − C(n−c,k)/C(n,k), in product form, so that it never overflows.
// ErrRange for counts that cannot be; ErrKBeyondN when k > n.
func PassAt(n, c, k int) (float64, error) {
	if err := checkPass(n, c, k); err != nil {
		return 0, err
	}
	if n-c < k {
		return 1, nil
	}
	none := 1.0
	for j := n - c + 1; j <= n; j++ {
		none *= 1 - float64(k)/float64(j)
	}
	return 1 - none, nil
}

// PassHat is the unbiased estimate of pass^k, the chance that k fresh trials
// all succeed: C(c,k)/C(n,k). Errors as PassAt.
func PassHat(n, c, k int) (float64, error) {
	if err := checkPass(n, c, k); err != nil {
		return 0, err
	}
	all := 1.0
	for j := range k {
		if c-j <= 0 {
			return 0, nil
		}
		all *= float64(c-j) / float64(n-j)
	}
	return all, nil
}

func checkPass(n, c, k int) error {
	if n < 1 || c < 0 || c > n || k < 1 {
		return fmt.Errorf("%w: n %d, c %d, k %d", ErrRange, n, c, k)
	}
	if k > n {
		return fmt.Errorf("%w: k %d, %d trials", ErrKBeyondN, k, n)
	}
	return nil
}
