// client-go's typed informer, which serves built-in kinds alone, and franz-go.
package main

import (
	"kubedelta.test/client-go/bridge"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	bridge.Run(func(config *rest.Config) (cache.SharedIndexInformer, error) {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		informer, err := informers.NewSharedInformerFactory(client, 0).ForResource(bridge.Resource())
		if err != nil {
			return nil, err
		}
		return informer.Informer(), nil
	})
}
